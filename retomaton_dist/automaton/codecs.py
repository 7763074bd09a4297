"""The distance codecs: every candidate's distance comes from one of them, and only from there.

A codec makes queries ready once per position; lanes that share a position share what is ready.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.automaton import measuring_fp16, measuring_pq
from retomaton_dist.automaton.measuring_fp16 import Fp16Codes, Fp16Queries
from retomaton_dist.automaton.measuring_pq import WORDS, PqCodes, PqQueries
from retomaton_dist.automaton.threads import Threads
from retomaton_dist.errors import BadInput


class Queries(NamedTuple):
    """Queries, one per row, made ready for a codec."""

    ready: PqQueries | Fp16Queries

    @property
    def rows(self) -> int:
        """Number of queries."""
        return len(self.ready.queries)


@dataclass(frozen=True)
class Codec:
    """One codec over the entries of an automaton, in slot order."""

    codes: PqCodes | Fp16Codes
    dimension: int
    measure_lanes: Callable[..., None]
    measure_slots: Callable[..., None]

    def ready(self, queries: ArrayLike, threads: Threads) -> Queries:
        """Make queries [rows, d] ready; a wrong width or a NaN is refused."""
        rows = check_queries(queries, self.dimension)
        if isinstance(self.codes, Fp16Codes):
            return Queries(Fp16Queries(rows))
        return Queries(_ready_pq(self.codes, rows, threads))

    def distances(
        self, queries: Queries, slots: NDArray[np.int64], threads: Threads
    ) -> NDArray[np.float32]:
        """Squared distances from query i to the slots of row i; infinite for -1."""
        found = np.empty(slots.shape, np.float32)
        bounds = _bounds(len(slots), threads.count)

        def work(share: int) -> None:
            first, last = bounds[share]
            self.measure_slots(self.codes, queries.ready, slots, found, first, last)

        threads.run(work, len(bounds))
        return found


def pq_codec(codes: PqCodes) -> Codec:
    """The codec `pq` over such codes."""
    width = codes.centroids.shape[1]
    frozen = PqCodes(*(read_only(array) for array in codes))
    return Codec(frozen, width, measuring_pq.measure_lanes, measuring_pq.measure_slots)


def fp16_codec(keys: NDArray[np.float16]) -> Codec:
    """The codec `fp16` over keys [N, d]."""
    codes = Fp16Codes(read_only(keys.view(np.uint16)))
    return Codec(codes, keys.shape[1], measuring_fp16.measure_lanes, measuring_fp16.measure_slots)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not to be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_queries(queries: ArrayLike, dimension: int) -> NDArray[np.float32]:
    """Queries as float32 [rows, d], or one line about what is wrong with them."""
    given: NDArray[Any] = np.asarray(queries)
    if given.ndim != 2 or given.shape[1] != dimension:
        raise BadInput(
            f"queries of shape {given.shape}: the automaton's keys have {dimension} numbers, so "
            f"queries must be [rows, {dimension}]"
        )
    rows = np.ascontiguousarray(given, np.float32)
    sound = np.isfinite(rows).all(axis=1)
    if not sound.all():
        raise BadInput(f"query {int(np.argmin(sound))} holds NaN or infinity")
    return rows


def _ready_pq(codes: PqCodes, rows: NDArray[np.float32], threads: Threads) -> PqQueries:
    parts = len(codes.codebooks)
    ready = PqQueries(
        rows,
        np.empty((len(rows), parts * WORDS), np.float32),
        np.empty((len(rows), len(codes.centroids)), np.float32),
    )
    bounds = _bounds(len(rows), threads.count)

    def work(share: int) -> None:
        measuring_pq.prepare(codes.codebooks, ready, *bounds[share])

    threads.run(work, len(bounds))
    return ready


def _bounds(rows: int, shares: int) -> list[tuple[int, int]]:
    """Cut 0..rows-1 into at most so many ranges."""
    size = max(1, -(-rows // shares))
    return [(first, min(first + size, rows)) for first in range(0, rows, size)]
