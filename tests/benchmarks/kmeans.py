"""K-means against FAISS, side by side in one run.

    python -m tests.benchmarks.kmeans --keys keys.npy

Plain: `--states` states, training only. Two-level: the same, and the assignment of all rows. Ours
runs in two actors of one thread each, over a store of the keys; FAISS in a process with two
threads. Every contestant runs `--repeats` times in turn and its best time counts. Actors are
started and kernels compiled before the clock starts, and so are FAISS's float32 copies made.

Ours runs once with as many iterations as FAISS, and once with the fewest that end with no more
inertia than `faiss.Kmeans` did: that is the comparison at equal inertia.
"""

import argparse
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from retomaton_dist.clustering.arrays import blocks_of
from retomaton_dist.clustering.assign import finder
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import Recipe
from retomaton_dist.clustering.sums import digits_of, total_of
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.stages.kmeans_job import (
    UNIT_ROWS,
    Trained,
    TrainingFiles,
    open_trained,
    training_files,
)
from retomaton_dist.stages.kmeans_training import train_centroids
from retomaton_dist.storage.datastore import choose_chunk_entries
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.store import Store
from tests.search.made import make_store

PROCESSES = 2
EQUAL = "ours, equal inertia"
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Result:
    """The time of one run, and the inertia over all rows that it ended with."""

    seconds: float
    inertia: float


class Assigner:
    """Assigns rows to what was trained, and adds up their distances."""

    def __init__(self, reader: GuardedReader, files: TrainingFiles) -> None:
        trained = open_trained(reader, files)
        self._reader, self._find = reader, finder(trained.centroids, trained.cells, Blocking())

    def run(self, rows: slice) -> np.ndarray:
        return digits_of(self._find(self._reader.keys(rows.start, rows.stop)).distances)


@dataclass(frozen=True)
class Ours:
    """Our k-means over a store, its files in a folder that is removed after each run."""

    session: Session
    reader: GuardedReader

    def run(self, states: int, iterations: int, *, two_level: bool) -> Result:
        """Train, then assign all rows: that counts if there are two levels."""
        with tempfile.TemporaryDirectory() as folder:
            files = training_files(Path(folder), "benchmark")
            began = time.perf_counter()
            self.train(states, iterations, two_level, files)
            trained = time.perf_counter()
            inertia = self.assign(files)
            ended = time.perf_counter() if two_level else trained
        return Result(ended - began, inertia)

    def train(self, states: int, iterations: int, two_level: bool, files: TrainingFiles) -> Trained:
        """Train on all rows, for as many iterations as asked for."""
        recipe = Recipe(states, iterations, self.reader.shape.entries, 1, two_level)
        return train_centroids(self.session, self.reader, recipe, files, Blocking(), tolerance=-1)

    def assign(self, files: TrainingFiles) -> float:
        """Assign all rows; return the inertia."""
        units = list(blocks_of(self.reader.shape.entries, UNIT_ROWS // 8))
        with self.session.pool(partial(Assigner, self.reader, files), gpu=False) as pool:
            return total_of(sum(digits for _, digits in pool.run(units)))


def faiss_train(
    connection: Connection, store: Path, name: str, states: int, iterations: int
) -> None:
    """Train one of FAISS's k-means and assign all rows; send both times and the distances' sum."""
    import faiss

    faiss.omp_set_num_threads(PROCESSES)
    rows = Store.open(store).datastore().keys.astype(np.float32)
    kmeans = getattr(faiss, name)(
        rows.shape[1], states, niter=iterations, seed=1, max_points_per_centroid=len(rows)
    )
    began = time.perf_counter()
    kmeans.train(rows)
    trained = time.perf_counter()
    flat = faiss.IndexFlatL2(rows.shape[1])
    flat.add(kmeans.centroids)
    distances, _ = flat.search(rows, 1)
    ended = time.perf_counter()
    inertia = float(distances.sum(dtype=np.float64))
    connection.send((Result(trained - began, inertia), Result(ended - began, inertia)))


def run_faiss(store: Path, name: str, states: int, iterations: int) -> list[Result]:
    """Run FAISS in a process of its own: training alone, and with assignment."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=faiss_train, args=(there, store, name, states, iterations))
    process.start()
    results = here.recv()
    process.join()
    return results


@contextlib.contextmanager
def warm(store: Path) -> Iterator[Ours]:
    """Our k-means with two actors that have done both paths once."""
    torch.set_num_threads(1)
    with Session(WorkerSettings(workers=PROCESSES, progress="none")) as session:
        ours = Ours(session, GuardedReader(Store.open(store)))
        for two_level in (True, False):
            ours.run(40, 1, two_level=two_level)
        yield ours


def run_ours(store: Path, states: int, iterations: int) -> list[Result]:
    """Run both paths, plain and two-level."""
    with warm(store) as ours:
        return [ours.run(states, iterations, two_level=two_level) for two_level in (False, True)]


def run_until(store: Path, states: int, iterations: int, inertia: float) -> list[Result]:
    """Run both paths with the fewest iterations that end with so little inertia, or with all."""
    with warm(store) as ours:
        return [fewest(ours, states, iterations, inertia, two_level) for two_level in (False, True)]


def fewest(ours: Ours, states: int, iterations: int, inertia: float, two_level: bool) -> Result:
    """Run with one iteration, then with two, and so on; only the last run is told."""
    for tried in range(1, iterations + 1):
        result = ours.run(states, tried, two_level=two_level)
        if result.inertia <= inertia:
            break
    return result


def synthetic(rows: int, dimension: int) -> np.ndarray:
    """Make keys that cluster on two scales, with noise in all directions."""
    chosen = np.random.default_rng(0)
    coarse = chosen.standard_normal((60, dimension))
    fine = coarse[chosen.integers(0, 60, 4000)] + 0.7 * chosen.standard_normal((4000, dimension))
    weights = chosen.pareto(1.5, 4000) + 0.1
    keys = np.empty((rows, dimension), np.float16)
    for start in range(0, rows, 10_000):
        some = keys[start : start + 10_000]
        home = fine[chosen.choice(4000, len(some), p=weights / weights.sum())]
        some[:] = home + 0.5 * chosen.standard_normal(some.shape)
    return keys


def stored(path: Path, keys: np.ndarray) -> Path:
    """Make a store of the keys, as extraction leaves it."""
    whole, rest = divmod(len(keys), 100)
    lengths = [100] * whole + [rest] * bool(rest)
    return make_store(path, keys, lengths, choose_chunk_entries(*keys.shape))


def best(results: Sequence[Result]) -> Result:
    """Return the fastest run; all have the same inertia."""
    return min(results, key=lambda result: result.seconds)


def line(name: str, result: Result, base: Result) -> str:
    ratio, inertia = base.seconds / result.seconds, result.inertia / base.inertia
    return f"{name:<34} {result.seconds:8.1f} s {ratio:8.2f}x {inertia:9.4f}"


def report(runs: dict[str, list[list[Result]]]) -> str:
    """Compare best times with those of faiss.Kmeans: training, then training and assignment."""
    rows = []
    for part, title in enumerate(("training, plain", "training and assignment of all rows")):
        base = best([run[part] for run in runs["faiss.Kmeans"]])
        path = ("plain", "two-level")[part]
        names = {name: name.replace("ours", f"ours, {path}") for name in runs}
        rows.append(f"\n{title:<34} {'time':>10} {'speed':>9} {'inertia':>9}")
        rows += [
            line(names[name], best([run[part] for run in found]), base)
            for name, found in runs.items()
        ]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", help="float16 keys as .npy; synthetic ones by default")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--dimension", type=int, default=256, help="of synthetic keys")
    parser.add_argument("--states", type=int, help="default: rows / 100")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2)
    chosen = parser.parse_args()
    keys = np.load(chosen.keys, mmap_mode="r")[: chosen.rows] if chosen.keys else None
    keys = synthetic(chosen.rows, chosen.dimension) if keys is None else keys
    states = chosen.states or len(keys) // 100
    print(
        f"{len(keys):,} rows of {keys.shape[1]}, {states:,} states, {chosen.iterations} iterations"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = stored(Path(folder) / "s.store", keys)
        print(report(compete(store, states, chosen.iterations, chosen.repeats)))


def compete(
    store: Path, states: int, iterations: int, repeats: int
) -> dict[str, list[list[Result]]]:
    """Let all take turns; return every run of each: the plain one, and that with assignment."""
    contestants: dict[str, Callable[[], list[Result]]] = {
        "faiss.Kmeans": partial(run_faiss, store, "Kmeans", states, iterations),
        "faiss.SuperKmeans": partial(run_faiss, store, "SuperKmeans", states, iterations),
        "ours": partial(run_ours, store, states, iterations),
    }
    runs: dict[str, list[list[Result]]] = {name: [] for name in (*contestants, EQUAL)}
    for _ in range(repeats):
        for name, run in contestants.items():
            runs[name].append(run())
        peer = runs["faiss.Kmeans"][0][0].inertia
        runs[EQUAL].append(run_until(store, states, iterations, peer))
    return runs


if __name__ == "__main__":
    main()
