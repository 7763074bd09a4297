"""Peak memory of a k-means worker at two sizes of N: it should not grow with the keys.

    python -m tests.benchmarks.kmeans_memory [--rows 100000 400000]

The worker runs in a process of its own, without Ray, over a store whose keys are mapped. What is
compared is anonymous memory: mapped pages are the page cache's, not the worker's.
"""

import argparse
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
import torch

from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import Recipe
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.stages.kmeans_job import training_files
from retomaton_dist.stages.kmeans_training import train_centroids
from retomaton_dist.storage.datastore import choose_chunk_entries
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.store import Store
from tests.benchmarks.memory import Peak, own_memory
from tests.search.made import make_store

STATES, DIMENSION, ITERATIONS = 1000, 256, 2


def cluster(path, two_level, answer):
    """Run k-means over all keys of the store; report the growth of memory at its peak."""
    torch.set_num_threads(1)
    reader = GuardedReader(Store.open(path))
    train(reader, 2 * STATES, 1, two_level)
    before = own_memory()
    with Peak() as peak:
        train(reader, reader.shape.entries, ITERATIONS, two_level)
    answer.put((before, peak.bytes))


def train(reader, rows, iterations, two_level):
    """Train as the stage does, with the one worker of `--workers 0`."""
    recipe = Recipe(STATES, iterations, rows, 1, two_level)
    with (
        tempfile.TemporaryDirectory() as folder,
        Session(WorkerSettings(workers=0)) as session,
    ):
        files = training_files(Path(folder), "benchmark")
        train_centroids(session, reader, recipe, files, Blocking())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs=2, default=[100_000, 400_000])
    context = multiprocessing.get_context("spawn")
    for rows in parser.parse_args().rows:
        with tempfile.TemporaryDirectory() as folder:
            keys = np.random.default_rng(1).standard_normal((rows, DIMENSION), np.float32)
            chunk_entries = choose_chunk_entries(rows, DIMENSION)
            path = make_store(Path(folder) / "s.store", keys, [rows], chunk_entries)
            for name, two_level in (("plain", False), ("two-level", True)):
                answer = context.Queue()
                process = context.Process(target=cluster, args=(path, two_level, answer))
                process.start()
                before, peak = answer.get()
                process.join()
                figures = f"{before / 1e6:.0f} MB before, {peak / 1e6:.0f} MB at the peak"
                print(f"{rows:>9,} rows, {name}: {figures}")


if __name__ == "__main__":
    main()
