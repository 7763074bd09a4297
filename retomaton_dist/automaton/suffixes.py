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
from retomaton_dist.automaton.contexts import Before, context_order, first_tokens, next_token
from retomaton_dist.codec.codec import read_only
from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.errors import BadInput
from retomaton_dist.storage.automaton import id_type
from retomaton_dist.storage.suffixes import SUFFIXES

# Rows that are narrowed down together.
ROWS = 16
# Neighbours in context order that are listed together where there is no room for all: as good as
# a choice at random, and a quarter of its misses.
RUN = 4


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
        files = SUFFIXES.open(folder)
        columns = ContextColumns(*(files.column(name) for name in ContextColumns._fields))
        return cls(columns, files.shape.longest)

    def __repr__(self) -> str:
        entries = len(self.columns.order)
        return f"<Suffixes: {entries:,} entries, contexts of up to {self.longest} tokens>"

    @classmethod
    def of(cls, before: Before, vocabulary: int, longest: int) -> "Suffixes":
        """Make one in memory, of the token before each entry (see `contexts`)."""
        ids = id_type(len(before))
        order = context_order(before, longest).astype(ids)
        counts = np.bincount(first_tokens(before), minlength=vocabulary + 1)
        return cls(ContextColumns(np.cumsum(counts).astype(ids), order, before), longest)

    @property
    def entries(self) -> int:
        """N."""
        return len(self.columns.order)

    @property
    def vocabulary(self) -> int:
        """V."""
        return len(self.columns.starts) - 1

    def look_up(self, recent: NDArray[np.int32], k: int) -> Matches:
        """Find up to k entries for each row of recent tokens [rows, longest].

        A row holds the tokens before a position in its document, the latest first, and -1 where
        there are none. All entries that match m tokens come before those that match fewer. Where
        more match alike than there is room for, runs of a few neighbours in context order are
        taken, evenly spaced.
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
    scratch = make_scratch(recent.shape[1])
    for first in range(0, recent.shape[0], ROWS):
        group = recent[first : first + ROWS]
        narrow(columns, group, 0, scratch, lengths[first : first + ROWS])
        for row in range(group.shape[0]):
            listed, ranges = entries[first + row], scratch.ranges[row]
            count = list_ranges(columns, ranges, np.int64(lengths[first + row]), listed)
            counts[first + row] = count
            listed[count:] = -1


class NarrowScratch(NamedTuple):
    """Room for narrowing a group of rows: `ranges` [row, m] are what matches m tokens.

    The others are a search each: for the beginning and the end of a row's next range.
    """

    ranges: NDArray[np.int64]
    rows: NDArray[np.int64]
    tokens: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]


@compiled
def make_scratch(longest: Whole) -> NarrowScratch:
    """Room for one call."""
    return NarrowScratch(
        np.empty((ROWS, longest + 1, 2), np.int64),
        np.empty(ROWS, np.int64),
        np.empty(2 * ROWS, np.int64),
        np.empty(2 * ROWS, np.int64),
        np.empty(2 * ROWS, np.int64),
    )


@compiled
def narrow(
    columns: ContextColumns,
    recent: NDArray[np.int32],
    least: Whole,
    scratch: NarrowScratch,
    lengths: NDArray[np.int32],
) -> None:
    """Find the places whose contexts begin with the first m tokens, for every m that has any.

    `lengths` are the largest such m, and ranges[row, m] the first place and one past the last.
    A row ends before the first number below `least`; if that is NONE, where a document begins is
    matched too.
    """
    lengths[:] = 0
    active = first_ranges(columns, recent, least, scratch)
    for length in range(1, recent.shape[1] + 1):
        searching: Whole = 0
        for i in range(active):
            row = scratch.rows[i]
            low, high = scratch.ranges[row, length]
            if low < high:
                lengths[row] = length
                known = length < recent.shape[1] and recent[row, length - 1] >= 0
                if known and recent[row, length] >= least:
                    scratch.rows[searching] = row
                    for side in range(2):
                        scratch.tokens[2 * searching + side] = recent[row, length] + side
                        scratch.lows[2 * searching + side] = low
                        scratch.highs[2 * searching + side] = high
                    searching += 1
        active = searching
        first_places(columns, length, 2 * active, scratch)
        for i in range(active):
            for side in range(2):
                scratch.ranges[scratch.rows[i], length + 1, side] = scratch.lows[2 * i + side]


@compiled
def first_ranges(
    columns: ContextColumns, recent: NDArray[np.int32], least: Whole, scratch: NarrowScratch
) -> Whole:
    """Ranges of one token, and the rows that have one; return how many."""
    count: Whole = 0
    for row in range(recent.shape[0]):
        token = np.int64(recent[row, 0])
        if least <= token < columns.starts.shape[0] - 1:
            low = np.int64(columns.starts[token]) if token >= 0 else np.int64(0)
            high = np.int64(columns.starts[token + 1])
            scratch.ranges[row, 1, 0] = max(low, np.int64(0))
            scratch.ranges[row, 1, 1] = min(high, np.int64(columns.order.shape[0]))
            scratch.rows[count] = row
            count += 1
    return count


@compiled
def first_places(
    columns: ContextColumns, depth: Whole, searches: Whole, scratch: NarrowScratch
) -> None:
    """Raise lows[i] to the first place up to highs[i] whose token `depth` is not below tokens[i].

    All searches take their steps together: none waits for what another fetches from memory.
    """
    lows, highs = scratch.lows, scratch.highs
    going = searches > 0
    while going:
        going = False
        for i in range(searches):
            if lows[i] < highs[i]:
                middle = (lows[i] + highs[i]) >> 1
                token = next_token(columns.before, np.int64(columns.order[middle]), depth)
                below = token < scratch.tokens[i]
                lows[i] = middle + 1 if below else lows[i]
                highs[i] = highs[i] if below else middle
                going = True


@compiled
def list_ranges(
    columns: ContextColumns, ranges: NDArray[np.int64], length: Whole, entries: NDArray[np.int64]
) -> Whole:
    """List the entries of the ranges, from the narrowest to the widest; return how many."""
    count: Whole = 0
    inner_low, inner_high = np.int64(0), np.int64(0)
    if length > 0:
        inner_low, inner_high = ranges[length, 0], ranges[length, 0]
    for matched in range(length, 0, -1):
        low, high = ranges[matched]
        left = inner_low - low
        total = left + high - inner_high
        listed = min(total, entries.shape[0] - count)
        runs = -(-listed // RUN)
        for run in range(runs):
            # What is not listed is skipped evenly, a part of it before each run.
            skipped = (2 * run + 1) * (total - listed) // (2 * runs)
            for place in range(skipped + run * RUN, skipped + min(run * RUN + RUN, listed)):
                inside = low + place if place < left else inner_high + place - left
                entry = np.int64(columns.order[inside])
                if 0 <= entry < columns.order.shape[0]:
                    entries[count] = entry
                    count += 1
        if listed < total:
            break
        inner_low, inner_high = low, high
    return count
