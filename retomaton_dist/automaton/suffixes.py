"""The suffix index: entries that follow the longest match of the last tokens, without a search.

Entries lie in context order (`contexts`): those whose last m tokens are the same are a range of
it, and the range of m + 1 tokens lies inside. A look-up narrows the range down, token by token,
and lists what the narrowest holds, then what the wider ones add, as long as there is room.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.contexts import Before, context_order, first_tokens, token_at
from retomaton_dist.codec.codec import read_only
from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.errors import BadInput
from storage.automaton import id_type
from storage.suffixes import SuffixFiles


class ContextColumns(NamedTuple):
    """`order` is the entry of each place in context order, `before` the token before each entry.

    Contexts that begin with token w have the places starts[w]..starts[w + 1] - 1; those before
    starts[0] are empty.
    """

    starts: Ids
    order: Ids
    before: Before


class Matches(NamedTuple):
    """What look-ups found, a row each.

    `entries` [rows, k] follow the same last tokens, the longest match first, -1 beyond `counts`;
    `lengths` are the longest matches, 0 where not even the last token was ever followed.
    """

    entries: NDArray[np.int64]
    lengths: NDArray[np.int32]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Suffixes:
    """The suffix index of a corpus; it tells contexts of up to `longest` tokens apart."""

    columns: ContextColumns
    longest: int

    def __post_init__(self) -> None:
        # Kernels are compiled once for read-only arrays, which is what maps are.
        frozen = ContextColumns(*(read_only(column) for column in self.columns))
        object.__setattr__(self, "columns", frozen)

    @classmethod
    def open(cls, folder: Path) -> "Suffixes":
        """Map a suffix index's folder: nothing is copied; truncated or foreign ones are refused."""
        files = SuffixFiles.open(folder)
        columns = ContextColumns(*(files.column(name) for name in ContextColumns._fields))
        return cls(columns, files.shape.longest)

    @classmethod
    def of(cls, before: Before, vocabulary: int, longest: int) -> "Suffixes":
        """Make one in memory, of the token before each entry (see `contexts`)."""
        ids = id_type(len(before))
        order = context_order(before, np.arange(len(before)), longest).astype(ids)
        counts = np.bincount(first_tokens(before), minlength=vocabulary + 1)
        return cls(ContextColumns(np.cumsum(counts).astype(ids), order, before), longest)

    @property
    def entries(self) -> int:
        """N."""
        return len(self.columns.order)

    def look_up(self, recent: NDArray[np.int32], k: int) -> Matches:
        """Find up to k entries for each row of recent tokens [rows, longest].

        A row holds the tokens before a position in its document, the latest first, and -1 where
        there are none. All entries that match m tokens come before those that match fewer. Where
        more match alike than there is room for, those taken are evenly spaced in context order.
        """
        if recent.ndim != 2 or recent.shape[1] != self.longest:
            raise BadInput(f"recent tokens of shape {recent.shape}: rows of {self.longest} needed")
        rows = np.ascontiguousarray(recent, np.int32)
        entries = np.empty((len(rows), k), np.int64)
        lengths, counts = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
        look_up_rows(self.columns, rows, entries, lengths, counts)
        return Matches(entries, lengths, counts)


@compiled
def look_up_rows(
    columns: ContextColumns,
    recent: NDArray[np.int32],
    entries: NDArray[np.int64],
    lengths: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Fill the rows of `Matches`."""
    ranges = np.empty((recent.shape[1] + 2, 2), np.int64)
    for row in range(recent.shape[0]):
        length = narrow(columns, recent[row], ranges)
        lengths[row] = length
        counts[row] = list_ranges(columns, ranges, length, entries[row])
        entries[row, counts[row] :] = -1


@compiled
def narrow(columns: ContextColumns, recent: NDArray[np.int32], ranges: NDArray[np.int64]) -> Whole:
    """Find the places whose contexts begin with the first m tokens, for every m that has any.

    Return the largest such m; ranges[m] are the first place and one past the last.
    """
    token = np.int64(recent[0])
    if not 0 <= token < columns.starts.shape[0] - 1:
        return 0
    low: Whole = max(np.int64(columns.starts[token]), np.int64(0))
    high: Whole = min(np.int64(columns.starts[token + 1]), np.int64(columns.order.shape[0]))
    length = 0
    while low < high:
        length += 1
        ranges[length, 0], ranges[length, 1] = low, high
        if length == recent.shape[0] or recent[length] < 0:
            break
        low = first_place(columns, low, high, length, np.int64(recent[length]))
        high = end_of_run(columns, low, high, length, np.int64(recent[length]))
    return length


@compiled
def first_place(
    columns: ContextColumns, low: Whole, high: Whole, depth: Whole, token: Whole
) -> Whole:
    """The first of the places low..high-1 whose token number `depth` is not below `token`."""
    while low < high:
        middle = (low + high) >> 1
        if token_at(columns.before, np.int64(columns.order[middle]), depth) < token:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def end_of_run(
    columns: ContextColumns, low: Whole, high: Whole, depth: Whole, token: Whole
) -> Whole:
    """One past the last of the places from `low` on whose token number `depth` is `token`."""
    # Runs are mostly far shorter than what is left to look through: strides that double.
    first, stride = low, 1
    while low < high:
        probe = min(first + stride, high) - 1
        if token_at(columns.before, np.int64(columns.order[probe]), depth) != token:
            return first_place(columns, low, probe, depth, token + 1)
        low, stride = probe + 1, 2 * stride
    return high


@compiled
def list_ranges(
    columns: ContextColumns, ranges: NDArray[np.int64], length: Whole, entries: NDArray[np.int64]
) -> Whole:
    """List the entries of the ranges, from the narrowest to the widest; return how many."""
    count: Whole = 0
    inner_low, inner_high = ranges[length, 0], ranges[length, 0]
    for matched in range(length, 0, -1):
        low, high = ranges[matched, 0], ranges[matched, 1]
        left = inner_low - low
        total = left + high - inner_high
        listed = min(total, entries.shape[0] - count)
        for i in range(listed):
            # Evenly spaced, from the middle of each share.
            place = i if listed == total else (2 * i + 1) * total // (2 * listed)
            place += low if place < left else inner_high - left
            entry = np.int64(columns.order[place])
            if 0 <= entry < columns.order.shape[0]:
                entries[count] = entry
                count += 1
        inner_low, inner_high = low, high
    return count
