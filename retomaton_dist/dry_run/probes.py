"""Short timings of what the stages after extraction spend their time on, on made-up keys.

All workers are timed at once, as they will run, each for about a second.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial

import numpy as np
import psutil
from numpy.typing import NDArray

from retomaton_dist.automaton.layout import slot_order
from retomaton_dist.clustering.assign import find_among_all
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.codec.training import Codebooks, decode, encode
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.runtime.pool import run_units
from retomaton_dist.runtime.progress import Progress
from retomaton_dist.search.library import faiss, limit_threads
from retomaton_dist.stages.codec import CodecRecipe

ROWS = 4096
CELLS = 1024
SORTED = 1 << 18
HASHED = 8 << 20
SECONDS = 0.2


@dataclass(frozen=True)
class Rates:
    """What one worker gets done in a second while the others work too.

    `products` and `searched` are multiplications of numbers, by our own k-means and by FAISS;
    `encoded` are keys, `placed` entries brought into slot order, `hashed` bytes checked.
    """

    products: float
    searched: float
    encoded: float
    placed: float
    hashed: float
    worker_bytes: float


@dataclass(frozen=True)
class Sizes:
    """What is timed: keys of this width, against so many states at a time, with this codec."""

    dimension: int
    states: int
    codec: CodecRecipe


def measure(sizes: Sizes, session: Session) -> tuple[Rates, float]:
    """Time every worker of the session and take the mean; return the seconds of a start too."""
    gpu, clock = session.has_gpu(), Progress("", 0, "")
    started: list[float] = []
    crew, limit = session.crew(gpu=gpu), session.settings.unit_timeout
    make = partial(ProbeWorker, sizes, "cuda" if gpu else "cpu", crew.threads)
    results = run_units(
        crew, make, range(crew.workers), limit, lambda: started.append(clock.seconds)
    )
    found = [astuple(rates) for _, rates in results]
    return Rates(*np.mean(found, axis=0).tolist()), started[0]


class ProbeWorker:
    """Times one worker."""

    def __init__(self, sizes: Sizes, device: str, threads: int) -> None:
        self._sizes, self._device, self._threads = sizes, device, threads
        self._random = np.random.default_rng(0)
        self._keys = self._drawn(ROWS, sizes.dimension).astype(np.float16)

    def run(self, _: int) -> Rates:
        """Time one thing after the other."""
        dimension, states = self._sizes.dimension, self._sizes.states
        return Rates(
            products=_rate(ROWS * states * dimension, self._assigning()),
            searched=_rate(ROWS * CELLS * dimension, self._searching()),
            encoded=_rate(ROWS, self._encoding()),
            placed=_rate(SORTED, self._placing()),
            hashed=_rate(HASHED, partial(hashlib.sha256, bytes(HASHED))),
            worker_bytes=psutil.Process().memory_info().rss,
        )

    def _assigning(self) -> Callable[[], object]:
        centroids = self._drawn(self._sizes.states, self._sizes.dimension)
        return partial(find_among_all(centroids, Blocking(device=self._device)), self._keys)

    def _searching(self) -> Callable[[], object]:
        limit_threads(self._threads, "Flat")
        index = faiss.IndexFlatL2(self._sizes.dimension)
        index.add(self._drawn(CELLS, self._sizes.dimension))
        return partial(index.search, self._keys.astype(np.float32), 1)

    def _encoding(self) -> Callable[[], object]:
        dimension, codec = self._sizes.dimension, self._sizes.codec
        words = self._drawn(codec.code_size, dimension // codec.code_size, 256)
        books = Codebooks(self._drawn(codec.cells, dimension), words)
        return lambda: decode(encode(self._keys, books), books)

    def _placing(self) -> Callable[[], object]:
        states = self._random.integers(0, SORTED // 100, SORTED)
        values = self._random.integers(0, 50_000, SORTED).astype(np.int32)
        codes = self._random.integers(0, 256, (SORTED, self._sizes.codec.code_size), np.uint8)

        def place() -> None:
            entries = slot_order(states, values)
            order = np.argsort(entries)
            placed = np.empty_like(codes)
            placed[order] = codes[entries[order]]

        return place

    def _drawn(self, *shape: int) -> NDArray[np.float32]:
        return self._random.standard_normal(shape, np.float32)


def _rate(work: float, do: Callable[[], object]) -> float:
    """Work per second of the best of some calls; the first one, which compiles, is not timed."""
    do()
    best, end = float("inf"), time.monotonic() + SECONDS
    while best == float("inf") or time.monotonic() < end:
        start = time.perf_counter()
        do()
        best = min(best, time.perf_counter() - start)
    return work / best
