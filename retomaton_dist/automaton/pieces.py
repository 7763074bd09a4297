"""Entries of some states in slot order, a piece at a time: what fits in memory, however many."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.layout import pick, place_rows, slot_order, words
from retomaton_dist.storage.automaton import id_type
from retomaton_dist.storage.windows import Windows

SCAN = 1 << 20
BLOCK_BYTES = 128 << 20

Places = NDArray[np.int64]
Tokens = NDArray[np.int32] | Windows


@dataclass(frozen=True)
class Arranged:
    """Entries of consecutive slots, with their values and states.

    `found` are the same entries in ascending order, and `order` says which of them each slot has.
    """

    found: Ids
    order: Places
    values: NDArray[np.int32]
    states: NDArray[Any]

    @cached_property
    def entries(self) -> Ids:
        """The entry of each slot."""
        return self.found[self.order]

    @cached_property
    def _places(self) -> Ids:
        """The slot of each of `found`, counted from the first."""
        kind = id_type(len(self.order))
        places = np.empty(len(self.order), kind)
        places[self.order] = np.arange(len(self.order), dtype=kind)
        return places

    def rows(self, source: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Rows of a source that has one per entry, in slot order; blocks share their memory.

        A source is swept from start to end, whatever order the slots are in, and once per block:
        one that is not cached is read at the disk's full speed.
        """
        wide = words(source)
        count = max(1, BLOCK_BYTES // (wide.shape[1] * wide.itemsize))
        block = np.empty((min(count, len(self.order)), wide.shape[1]), wide.dtype)
        for first in range(0, len(self.order), count):
            part = block[: len(self.order) - first]
            place_rows(wide, self.found, self._places, first, part)
            yield part.view(source.dtype)


def pieces(
    state_of_entry: NDArray[np.uint32] | None,
    values: Tokens,
    first: int,
    last: int,
    expected: int,
    most: int,
) -> Iterator[Arranged]:
    """Arrange the entries of the states first..last-1, piece after piece, in slot order.

    There should be `expected` of them; if that is more than `most`, they are one state's. Without
    `state_of_entry` every entry is its own state.
    """
    if state_of_entry is None:
        entries = np.arange(first, last)
        yield Arranged(entries, entries - first, values[first:last], entries)
        return
    if expected > most:
        found: Iterator[Ids] = _parts_of_state(state_of_entry, values, first, most)
    else:
        found = iter([_within(state_of_entry, first, last, expected)])
    for entries in found:
        numbers, some = state_of_entry[entries], values[entries]
        order = slot_order(numbers - np.uint32(first), some)
        yield Arranged(entries, order, some[order], numbers[order])


def ranges_within(offsets: Places, most: int) -> list[tuple[int, int]]:
    """Cut what begins at `offsets` into ranges of at most so many entries, at least one thing each.

    `offsets` holds the total at its end.
    """
    ranges, first, last = [], 0, len(offsets) - 1
    while first < last:
        stop = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        stop = min(max(stop, first + 1), last)
        ranges.append((first, stop))
        first = stop
    return ranges


class Run(NamedTuple):
    """Consecutive things first..last-1, how many entries they have, and where these begin."""

    first: int
    last: int
    entries: int
    begins: int


def runs_within(sizes: Iterable[Places], most: int) -> Iterator[Run]:
    """Cut things of known sizes as `ranges_within` does; sizes come block by block."""
    run, known, end = Run(0, 0, 0, 0), 0, 0
    for block in sizes:
        ends = end + np.cumsum(block)
        while run.last < known + len(block):
            fitting = known + int(np.searchsorted(ends, run.begins + most, side="right"))
            full = fitting < known + len(block)
            last = max(fitting, run.first + 1) if full else fitting
            if last > run.last:
                run = run._replace(last=last, entries=int(ends[last - 1 - known]) - run.begins)
            if full:
                yield run
                run = Run(last, last, 0, run.begins + run.entries)
        known, end = known + len(block), int(ends[-1])
    if run.last > run.first:
        yield run


def _within(numbers: NDArray[Any], first: int, last: int, expected: int) -> Ids:
    """Where numbers are in first..last-1, ascending; lists one more than expected at most."""
    found = np.empty(expected + 2, id_type(len(numbers)))
    count = int(pick(numbers, first, last, found))
    return found[: min(count, expected + 1)]


def _parts_of_state(
    numbers: NDArray[Any], values: Tokens, state: int, most: int
) -> Iterator[Places]:
    """Cut one state's entries into parts of ascending values, each of less than twice `most`.

    The states of all entries are read once per part: a state that large is rare.
    """
    scan = min(SCAN, most)
    counts = np.zeros(1, np.int64)
    for entries in _members(numbers, state, scan):
        counts = added(counts, np.bincount(values[entries]))
    for low, high in ranges_within(np.concatenate([[0], np.cumsum(counts)]), most):
        held: list[Places] = []
        for entries in _members(numbers, state, scan):
            some = values[entries]
            held.append(entries[(some >= low) & (some < high)])
            # Only one value can be that common, and its entries are in order already.
            if sum(map(len, held)) >= most:
                yield np.concatenate(held)
                held = []
        if held:
            yield np.concatenate(held)


def _members(numbers: NDArray[Any], state: int, scan: int) -> Iterator[Places]:
    """A state's entries, ascending, from so many entries at a time."""
    for start in range(0, len(numbers), scan):
        yield np.flatnonzero(numbers[start : start + scan] == state) + start


def added(left: Places, right: Places) -> Places:
    """The sum of counts, of which one may be longer."""
    total = np.zeros(max(len(left), len(right)), np.int64)
    total[: len(left)] += left
    total[: len(right)] += right
    return total
