"""The distance codecs: every candidate's distance comes from one of them, and only from there.

A codec is a `KeyCodec`: which columns it keeps of keys, how they are made, and how they are opened.
Opened over the entries of an automaton it is a `Codec`, which measures distances: it makes queries
ready once per position, and lanes that share a position share what is ready. `named` has codecs by
their names.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.codec.threads import Threads
from retomaton_dist.compiled import compiled
from retomaton_dist.errors import BadInput, DamagedStore

Rows = NDArray[np.int64]
Column = tuple[np.dtype[Any], int]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class CodecSizes:
    """What a codec of keys of `dimension` numbers is made with, every `auto` found out.

    `code_size` are bytes of a code, `cells` what codes are relative to, both 0 where there are
    none; `sample` is how many keys it is trained on.
    """

    dimension: int
    code_size: int = 0
    cells: int = 0
    sample: int = 0


class KeyCodec(ABC):
    """One way to keep keys.

    With `encodes`, a stage of its own trains it and encodes all keys; automata with such codes do
    not need the keys any more, so that these may be pruned.
    """

    name: str
    encodes = True
    iterations = 0
    """Passes over the sample that training makes: what it is said to cost."""

    @abstractmethod
    def sizes(self, entries: int, dimension: int, code_size: int | None) -> CodecSizes:
        """Choose what is `auto`; refuse codes that keys of this width cannot have."""

    @abstractmethod
    def rows(self, sizes: CodecSizes) -> Mapping[str, Column]:
        """Columns with some numbers per entry: their types, and how many numbers."""

    def books(self, sizes: CodecSizes) -> Mapping[str, Column]:  # noqa: ARG002 - has none
        """Columns that do not grow with the entries: their types and lengths."""
        return {}

    def columns(self, entries: int, sizes: CodecSizes) -> dict[str, Column]:
        """Type and length of every column."""
        rows = {name: (kind, width * entries) for name, (kind, width) in self.rows(sizes).items()}
        return {**rows, **self.books(sizes)}

    def row_bytes(self, sizes: CodecSizes) -> int:
        """Bytes that an entry takes."""
        return sum(kind.itemsize * width for kind, width in self.rows(sizes).values())

    def train(self, keys: NDArray[Any], sizes: CodecSizes, seed: int) -> Arrays:
        """Make the books from a sample of keys."""
        raise NotImplementedError(f"the codec {self.name} is not trained")

    def encode(self, keys: NDArray[Any], sizes: CodecSizes, books: Arrays) -> Arrays:
        """The rows of some keys."""
        raise NotImplementedError(f"the codec {self.name} keeps keys as they are")

    def lost(
        self, keys: NDArray[Any], sizes: CodecSizes, books: Arrays, rows: Arrays
    ) -> tuple[float, float]:
        """Sums of squares: of what encoding changed in these keys, and of what they differ by."""
        raise NotImplementedError(f"the codec {self.name} keeps keys as they are")

    def decode(self, rows: Arrays, sizes: CodecSizes, books: Arrays) -> NDArray[np.float32]:
        """What the rows of some keys stand for."""
        columns, count = {**books, **rows}, len(next(iter(rows.values())))
        return self.open(columns.__getitem__, sizes).keys(np.arange(count))

    @abstractmethod
    def open(self, column: Callable[[str], NDArray[Any]], sizes: CodecSizes) -> "Codec":
        """The codec over columns in slot order, flat as they lie on disk."""


class Queries(NamedTuple):
    """Queries, one per row, made ready for a codec."""

    ready: Any

    @property
    def rows(self) -> int:
        """Number of queries."""
        return len(self.ready.queries)


@dataclass(frozen=True)
class Codec(ABC):
    """One codec over the entries of an automaton, in slot order; `kernel` measures."""

    codes: Any
    dimension: int
    kernel: Callable[..., bool]

    @abstractmethod
    def prepared(self, queries: NDArray[np.float32], threads: Threads) -> Any:
        """What the kernel takes of queries that are sound; `queries` is one of its fields."""

    @abstractmethod
    def keys(self, slots: Rows) -> NDArray[np.float32]:
        """What the codec knows of the keys of some slots: its distances are from these."""

    def ready(self, queries: ArrayLike, threads: Threads) -> Queries:
        """Make queries [rows, d] ready; a wrong width or a NaN is refused."""
        return Queries(self.prepared(check_queries(queries, self.dimension), threads))

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


@compiled
def all_numbers(distances: NDArray[np.float32]) -> bool:
    """Whether none of them is NaN: damage in keys or codes shows as that."""
    sound = True
    for i in range(distances.shape[0]):
        # Only NaN differs from itself.
        sound &= distances[i] == distances[i]
    return sound


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not to be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_queries(queries: ArrayLike, dimension: int) -> NDArray[np.float32]:
    """Queries as float32 [n, d]; another width, NaN or infinity is bad input."""
    given: NDArray[Any] = np.asarray(queries)
    if given.ndim != 2 or given.shape[1] != dimension:
        raise BadInput(f"queries have shape {given.shape}, not [n, {dimension}] as the keys")
    if given.dtype.kind not in "fiu":
        raise BadInput(f"queries are numbers, not {given.dtype}")
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused
        checked = np.ascontiguousarray(given, np.float32)
    if not np.isfinite(checked).all():
        row = int(np.argmin(np.isfinite(checked).all(axis=1)))
        raise BadInput(f"query {row} is NaN or infinite somewhere")
    return checked
