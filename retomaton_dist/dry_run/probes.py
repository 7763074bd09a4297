"""Short timings of what the stages after extraction spend their time on, on made-up keys.

All workers are timed at once, as they will run, each for about two seconds, or less if there is no
time for that.
"""

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial

import numpy as np
import psutil
from numpy.typing import NDArray

from retomaton_dist.automaton.contexts import context_order
from retomaton_dist.automaton.layout import slot_order
from retomaton_dist.clustering.assign import find_among_all
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import cells_for, resolve
from retomaton_dist.codec.codec import CodecSizes
from retomaton_dist.codec.named import codec_named
from retomaton_dist.dry_run.rates import WHOLE_STAGE
from retomaton_dist.runtime.progress import Progress
from retomaton_dist.runtime.session import Session
from retomaton_dist.search.library import faiss, limit_threads
from retomaton_dist.settings import BuildSettings, ClusterSettings, CompileSettings
from retomaton_dist.stages.cost import Rates
from retomaton_dist.storage.datastore import Shape

ROWS = 4096
CELLS = 1024
SORTED, SWEPT = 1 << 18, 1 << 21
CONTEXT = 8
HASHED = 8 << 20
SECONDS = 0.2
THINGS = 7


@dataclass(frozen=True)
class Sizes:
    """What is timed: keys of this width, against so many states at a time, with this codec."""

    dimension: int
    states: int
    codec: CodecSizes


def choose_sizes(settings: BuildSettings, shape: Shape) -> Sizes:
    """What is to be timed for these settings: pq's codes also where another codec is chosen."""
    cluster, compiled = settings.of(ClusterSettings), settings.of(CompileSettings)
    states = Blocking().states
    if cluster.algorithm == "kmeans":
        # States that a row is multiplied with at a time: the fewer, the less is got from it.
        recipe = resolve(cluster, shape)
        cells = cells_for(recipe.states) if recipe.two_level else 1
        states = min(max(1, recipe.states // cells), states)
    size = compiled.code_size if compiled.codec == "pq" else None
    codec = codec_named("pq").sizes(shape.entries, shape.dimension, size)
    return Sizes(shape.dimension, states, codec)


def measure(sizes: Sizes, session: Session, seconds: float) -> Rates:
    """Time every worker of the session, for so long at most, and take the mean."""
    gpu = session.has_gpu()
    crew = session.crew(gpu=gpu)
    make = partial(ProbeWorker, sizes, "cuda" if gpu else "cpu", crew.threads, seconds)
    with session.pool(make, gpu=gpu) as pool:
        found = [astuple(rates) for _, rates in pool.run(range(crew.workers))]
    mean = Rates(*np.mean(found, axis=0).tolist())
    return replace(
        mean,
        products=WHOLE_STAGE * mean.products,
        searched=WHOLE_STAGE * mean.searched,
        encoded=WHOLE_STAGE * mean.encoded,
    )


def start_seconds(session: Session) -> float:
    """Seconds until the first worker of a session that has started none is ready."""
    clock = Progress("", 0, "")
    ready: list[float] = []
    with session.pool(Idle, gpu=False, on_ready=lambda: ready.append(clock.seconds)) as pool:
        list(pool.run([None]))
    return ready[0]


class Idle:
    """Does nothing."""

    def run(self, unit: None) -> None:
        """Return at once."""


class ProbeWorker:
    """Times one worker."""

    def __init__(self, sizes: Sizes, device: str, threads: int, seconds: float) -> None:
        self._sizes, self._device, self._threads = sizes, device, threads
        self._each = seconds / THINGS
        self._random = np.random.default_rng(0)
        self._keys = self._drawn(ROWS, sizes.dimension).astype(np.float16)

    def run(self, _: int) -> Rates:
        """Time one thing after the other."""
        dimension, states = self._sizes.dimension, self._sizes.states
        return Rates(
            products=self._rate(ROWS * states * dimension, self._assigning()),
            searched=self._rate(ROWS * CELLS * dimension, self._searching()),
            encoded=self._rate(ROWS, self._encoding()),
            placed=self._rate(SORTED, self._placing()),
            ordered=self._rate(SORTED, self._ordering()),
            hashed=self._rate(HASHED, partial(hashlib.sha256, bytes(HASHED))),
            worker_bytes=psutil.Process().memory_info().rss,
            swept=self._rate(4 * SWEPT, self._sweeping()),
        )

    def _rate(self, work: float, do: Callable[[], object]) -> float:
        """Work per second of the best of some calls, of which there is always one.

        The first one, which compiles, is not among them.
        """
        do()
        best, end = math.inf, time.perf_counter() + min(SECONDS, self._each)
        while best == math.inf or time.perf_counter() < end:
            start = time.perf_counter()
            do()
            best = min(best, time.perf_counter() - start)
        return work / best

    def _assigning(self) -> Callable[[], object]:
        centroids = self._drawn(self._sizes.states, self._sizes.dimension)
        return partial(find_among_all(centroids, Blocking(device=self._device)), self._keys)

    def _searching(self) -> Callable[[], object]:
        limit_threads(self._threads, "Flat")
        index = faiss.IndexFlatL2(self._sizes.dimension)
        index.add(self._drawn(CELLS, self._sizes.dimension))
        return partial(index.search, self._keys.astype(np.float32), 1)

    def _encoding(self) -> Callable[[], object]:
        codec, sizes = codec_named("pq"), self._sizes.codec
        shapes = codec.books(sizes).items()
        books = {name: self._drawn(length) for name, (_, length) in shapes}
        return lambda: codec.decode(codec.encode(self._keys, sizes, books), sizes, books)

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

    def _ordering(self) -> Callable[[], object]:
        # Text repeats itself: as much of it as this keeps whole contexts the same.
        tokens = np.minimum(self._random.zipf(1.3, SORTED // 4), 50_000).astype(np.int32)
        return partial(context_order, np.tile(tokens, 4), CONTEXT)

    def _sweeping(self) -> Callable[[], object]:
        numbers = self._random.integers(0, 1 << 20, SWEPT).astype(np.uint32)
        return lambda: np.flatnonzero(numbers < 1 << 14)

    def _drawn(self, *shape: int) -> NDArray[np.float32]:
        return self._random.standard_normal(shape, np.float32)
