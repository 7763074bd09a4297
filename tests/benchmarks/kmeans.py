"""K-means against FAISS, side by side in one run.

    python -m tests.benchmarks.kmeans --keys keys.npy

Plain: `--states` states, training only. Two-level: the same, and the assignment of all rows. Ours
runs in two processes of one thread each, as two actors do; FAISS in a process with two threads.
Every contestant runs `--repeats` times in turn and its best time counts. Kernels are compiled
before the clock starts, and so are FAISS's float32 copies made.
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import torch

from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.in_memory import InMemory, split_cell
from retomaton_dist.clustering.lloyd import LloydProgress, Stop, lloyd
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import add_assigned, by_state, limited
from retomaton_dist.clustering.sums import add_sums
from retomaton_dist.clustering.two_level import TwoLevel, plan_cells, split_cells

PROCESSES = 2
SUMS_MEMORY = 256 << 20
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Result:
    """The time of one run, and the inertia over all rows that it ended with."""

    seconds: float
    inertia: float


@dataclass(frozen=True)
class SharedKeys:
    """Keys in shared memory, which any process can map."""

    name: str
    shape: tuple[int, int]

    def mapped(self) -> tuple[SharedMemory, np.ndarray]:
        """Return the keys, and the memory that must outlive them."""
        memory = SharedMemory(self.name)
        return memory, np.ndarray(self.shape, np.float16, memory.buf)


def serve(connection: Connection, shared: SharedKeys, first: int, last: int) -> None:
    """Be an actor: hold some rows and do what the connection says."""
    torch.set_num_threads(1)
    memory, keys = shared.mapped()
    share, blocking = InMemory([keys[first:last]], Blocking()), Blocking()

    def members(splits):
        order, offsets = by_state(share.states, max(split.cell for split in splits) + 1)
        ranges = [slice(offsets[split.cell], offsets[split.cell + 1]) for split in splits]
        return [limited(first + order[r], split) for r, split in zip(ranges, splits, strict=True)]

    def split(jobs):
        return [split_cell(keys[rows], split, blocking) for split, rows in jobs]

    calls = {"assign": share.assign, "sums": share.sums, "members": members, "split": split}
    for name, arguments in iter(connection.recv, None):
        connection.send(calls[name](*arguments))
    memory.close()


class ProcessShares:
    """Implements `clustering.shares.Shares` over processes."""

    def __init__(self, shared: SharedKeys) -> None:
        self._memory, self._keys = shared.mapped()
        self.rows = shared.shape[0]
        bounds = np.linspace(0, self.rows, PROCESSES + 1).astype(int)
        self._ends = []
        for first, last in pairwise(bounds.tolist()):
            here, there = SPAWN.Pipe()
            process = SPAWN.Process(target=serve, args=(there, shared, first, last))
            process.start()
            self._ends.append((here, process))

    def _ask(self, name: str, arguments: Sequence[tuple[object, ...]]) -> list:
        for (end, _), given in zip(self._ends, arguments, strict=True):
            end.send((name, given))
        return [end.recv() for end, _ in self._ends]

    def take(self, rows):
        return self._keys[rows]

    def assign(self, centroids, cells):
        return add_assigned(self._ask("assign", [(centroids, cells)] * PROCESSES))

    def sums(self, first, last):
        return reduce(add_sums, self._ask("sums", [(first, last)] * PROCESSES))

    def split(self, splits):
        offered = self._ask("members", [(splits,)] * PROCESSES)
        rows = [
            limited(np.concatenate(parts), split)
            for split, *parts in zip(splits, *offered, strict=True)
        ]
        jobs = list(zip(splits, rows, strict=True))
        order = sorted(range(len(jobs)), key=lambda job: -len(rows[job]))
        lists = [order[number::PROCESSES] for number in range(PROCESSES)]
        found = self._ask("split", [([jobs[job] for job in chosen],) for chosen in lists])
        pairs = [dict(zip(*pair, strict=True)) for pair in zip(lists, found, strict=True)]
        return [reduce(dict.__or__, pairs)[job] for job in range(len(jobs))]

    def close(self) -> None:
        for end, process in self._ends:
            end.send(None)
            process.join()
        self._memory.close()


def plain(shares: ProcessShares, states: int, iterations: int) -> Result:
    """Train plain k-means."""
    began = time.perf_counter()
    start = LloydProgress(first_centroids(shares.rows, shares.take, states, 1))
    done = lloyd(shares, start, Stop(iterations, -1), SUMS_MEMORY)
    seconds = time.perf_counter() - began
    return Result(seconds, shares.assign(done.centroids, None).inertia)


def two_level(shares: ProcessShares, states: int, iterations: int) -> Result:
    """Train two-level k-means and assign all rows."""
    began = time.perf_counter()
    plan = plan_cells(shares, states, TwoLevel(), 1, Blocking())
    cells, start = split_cells(shares, plan, TwoLevel(), 1)
    done = lloyd(shares, start, Stop(iterations, -1), SUMS_MEMORY, cells)
    assigned = shares.assign(done.centroids, cells)
    return Result(time.perf_counter() - began, assigned.inertia)


def faiss_train(
    connection: Connection, shared: SharedKeys, name: str, states: int, iterations: int
) -> None:
    """Train one of FAISS's k-means and assign all rows; send both times and the distances' sum."""
    import faiss

    faiss.omp_set_num_threads(PROCESSES)
    memory, keys = shared.mapped()
    rows = keys.astype(np.float32)
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
    memory.close()


def run_faiss(shared: SharedKeys, name: str, states: int, iterations: int) -> list[Result]:
    """Run FAISS in a process of its own: training alone, and with assignment."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=faiss_train, args=(there, shared, name, states, iterations))
    process.start()
    results = here.recv()
    process.join()
    return results


def run_ours(shared: SharedKeys, states: int, iterations: int) -> list[Result]:
    """Run both paths over two processes."""
    torch.set_num_threads(1)
    shares = ProcessShares(shared)
    two_level(shares, 40, 1)
    plain(shares, 40, 1)
    results = [plain(shares, states, iterations), two_level(shares, states, iterations)]
    shares.close()
    return results


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
        names = {name: name for name in runs} | {"ours": ("ours, plain", "ours, two-level")[part]}
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
    parser.add_argument("--states", type=int, help="default: rows / 100")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2)
    chosen = parser.parse_args()
    keys = np.load(chosen.keys, mmap_mode="r")[: chosen.rows] if chosen.keys else None
    keys = synthetic(chosen.rows, 256) if keys is None else keys
    states = chosen.states or len(keys) // 100
    memory = SharedMemory(create=True, size=keys.nbytes)
    np.ndarray(keys.shape, np.float16, memory.buf)[:] = keys
    shared = SharedKeys(memory.name, keys.shape)
    contestants: dict[str, Callable[[], list[Result]]] = {
        "faiss.Kmeans": partial(run_faiss, shared, "Kmeans", states, chosen.iterations),
        "faiss.SuperKmeans": partial(run_faiss, shared, "SuperKmeans", states, chosen.iterations),
        "ours": partial(run_ours, shared, states, chosen.iterations),
    }
    print(
        f"{len(keys):,} rows of {keys.shape[1]}, {states:,} states, {chosen.iterations} iterations"
    )
    runs: dict[str, list[list[Result]]] = {name: [] for name in contestants}
    for _ in range(chosen.repeats):
        for name, run in contestants.items():
            runs[name].append(run())
    print(report(runs))
    memory.close()
    memory.unlink()


if __name__ == "__main__":
    main()
