"""Peak memory of a k-means worker at two sizes of N: it should not grow with the keys.

    python -m tests.benchmarks.kmeans_memory [--rows 100000 400000]

Keys lie in a mapped file, as a store's do. What is compared is anonymous memory: mapped pages are
the page cache's, not the worker's.
"""

import argparse
import multiprocessing
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

STATES, DIMENSION, ITERATIONS = 1000, 256, 2


def anonymous_megabytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000


def cluster(path, rows, answer):
    """Run k-means over the first rows of the file; report the growth of memory at its peak."""
    import torch

    from retomaton_dist.clustering.draw import first_centroids
    from retomaton_dist.clustering.in_memory import InMemory
    from retomaton_dist.clustering.lloyd import LloydProgress, Stop, lloyd
    from retomaton_dist.clustering.products import Blocking

    torch.set_num_threads(1)
    keys = np.memmap(path, np.float16, "r").reshape(-1, DIMENSION)[:rows]
    warm = InMemory([np.asarray(keys[: 2 * STATES])], Blocking())
    lloyd(warm, LloydProgress(first_centroids(2 * STATES, warm.take, STATES, 1)), Stop(1), 1 << 28)
    peak, done = [before := anonymous_megabytes()], threading.Event()

    def watch():
        while not done.is_set():
            peak[0] = max(peak[0], anonymous_megabytes())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    shares = InMemory([keys], Blocking())
    start = LloydProgress(first_centroids(rows, shares.take, STATES, 1))
    lloyd(shares, start, Stop(ITERATIONS), sums_memory=1 << 28)
    done.set()
    watcher.join()
    answer.put((before, peak[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs=2, default=[100_000, 400_000])
    sizes = parser.parse_args().rows
    context = multiprocessing.get_context("spawn")
    with tempfile.NamedTemporaryFile(suffix=".f16") as file:
        random = np.random.default_rng(1)
        for _ in range(0, max(sizes), 50_000):
            random.standard_normal((50_000, DIMENSION), np.float32).astype(np.float16).tofile(file)
        file.flush()
        for rows in sizes:
            answer = context.Queue()
            process = context.Process(target=cluster, args=(file.name, rows, answer))
            process.start()
            before, peak = answer.get()
            process.join()
            print(f"{rows:>9,} rows: {before:.0f} MB before, {peak:.0f} MB at the peak")


if __name__ == "__main__":
    main()
