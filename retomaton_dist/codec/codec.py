"""The distance codecs: every candidate's distance comes from one of them, and only from there.

A codec makes queries ready once per position; lanes that share a position share what is ready.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.codec import fp16, pq
from retomaton_dist.codec.fp16 import Fp16Codes, Fp16Queries
from retomaton_dist.codec.pq import WORDS, PqCodes, PqQueries
from retomaton_dist.codec.threads import Threads
from retomaton_dist.errors import BadInput, DamagedStore

Rows = NDArray[np.int64]


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
    kernel: Callable[..., bool]

    def ready(self, queries: ArrayLike, threads: Threads) -> Queries:
        """Make queries [rows, d] ready; a wrong width or a NaN is refused."""
        rows = check_queries(queries, self.dimension)
        if isinstance(self.codes, Fp16Codes):
            return Queries(Fp16Queries(rows))
        return Queries(_ready_pq(self.codes, rows, threads))

    def keys(self, slots: Rows) -> NDArray[np.float32]:
        """What the codec knows of the keys of some slots: its distances are from these."""
        codes = self.codes
        if isinstance(codes, Fp16Codes):
            return codes.keys[slots].view(np.float16).astype(np.float32)
        words = [book[:, codes.codes[slots, part]].T for part, book in enumerate(codes.codebooks)]
        decoded: NDArray[np.float32] = codes.centroids[codes.cells[slots]] + np.hstack(words)
        return decoded

    def distances(
        self, queries: Queries, slots: NDArray[np.int64], threads: Threads
    ) -> NDArray[np.float32]:
        """Squared distances from query i to the slots of row i; infinite for -1."""
        found = np.empty(slots.shape, np.float32)
        rows, firsts = np.arange(len(slots)), np.zeros(len(slots), np.int64)
        lasts = firsts + slots.shape[1]

        def work(_: int, part: slice) -> None:
            self.measure(queries, rows[part], slots, found, rows[part], firsts, lasts)

        threads.run(work, len(slots))
        return found

    def measure(
        self,
        queries: Queries,
        asking: Rows,
        slots: NDArray[np.int64],
        distances: NDArray[np.float32],
        rows: Rows,
        firsts: Rows,
        lasts: Rows,
    ) -> None:
        """Measure slots[row, firsts[row]:lasts[row]] into the same places of `distances`.

        This is done for the rows given; row `rows[i]` is measured from query `asking[i]`. What is
        no number is refused: walks would leave it out without a word.
        """
        places = rows, firsts, lasts
        if not self.kernel(self.codes, queries.ready, asking, slots, distances, *places):
            raise DamagedStore(
                "a distance is NaN: keys or codes of the automaton are damaged; `retomaton verify "
                "STORE` finds where"
            )


def pq_codec(codes: PqCodes) -> Codec:
    """The codec `pq` over such codes."""
    frozen = PqCodes(*(read_only(array) for array in codes))
    return Codec(frozen, codes.centroids.shape[1], pq.measure)


def fp16_codec(keys: NDArray[np.float16]) -> Codec:
    """The codec `fp16` over keys [N, d]."""
    codes = Fp16Codes(read_only(keys.view(np.uint16)))
    return Codec(codes, keys.shape[1], fp16.measure)


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

    def work(_: int, part: slice) -> None:
        pq.prepare(codes.codebooks, PqQueries(*(array[part] for array in ready)))

    threads.run(work, len(rows))
    return ready
