"""Greedy merging (He et al. 2021): entries absorb near neighbours of equal value, one hop.

Entries are visited in a seeded order. One that was not absorbed absorbs those of its neighbours
that have its value, were not absorbed, and have absorbed nothing themselves. An entry that absorbs
none is a state of its own; otherwise it represents one state with all that it absorbed.
Neighbours come from a search index, or for fewer entries from comparing each with each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Keys, blocks_of
from retomaton_dist.clustering.draw import digests, priorities
from retomaton_dist.clustering.products import (
    Blocking,
    ProductScratch,
    begin,
    contend,
    load_block,
    load_slabs,
    settled,
)
from retomaton_dist.compiled import compiled
from retomaton_dist.errors import DamagedStore

EXACT_ENTRIES = 200_000
"""Up to here an exact search is worth it: entries^2 x dimension takes minutes on two cores."""

Entries = NDArray[np.int64]
FindNeighbours = Callable[[slice], Entries]
"""Gives the neighbours of consecutive entries, nearest first, -1 where there are too few."""
Room = Callable[[str, Any, int], NDArray[Any]]
"""Makes an array of zeros, given its name, type and length: in memory, or mapped from a disk."""


def exact_neighbours(keys: Keys, k: int, blocking: Blocking) -> FindNeighbours:
    """Prepare to find the `k` nearest other entries of any entries, nearest first, -1 if too few.

    Entries of equal keys stay together, in ascending order, so the massive ties of keys that
    occur again and again cost nothing; among different keys ties go to the one seen first.
    """
    _, first, group = np.unique(digests(keys), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    first, group = np.sort(first), rank[group]
    different = keys[first].astype(np.float32)
    order = np.argsort(group, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group))])
    slabs = load_slabs(different, 0, len(different), blocking)
    scratch = ProductScratch(blocking.device)

    def find(entries: slice) -> Entries:
        found = np.full((entries.stop - entries.start, k), -1, np.int64)
        for part in blocks_of(len(found), blocking.rows):
            rows = np.arange(entries.start + part.start, entries.start + part.stop)
            contest = begin(load_block(keys[rows], blocking.device), k + 1, scratch)
            contend(contest, slabs)
            near, _ = settled(contest, different)
            _spell_out(near, rows, order, offsets, found[part])
        return found

    return find


@compiled
def _spell_out(
    near: NDArray[np.int32],
    rows: NDArray[np.int64],
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Replace different keys by the entries that have them, leaving out the row itself."""
    for i in range(near.shape[0]):
        filled = 0
        for group in near[i]:
            if group < 0:
                break
            for place in range(offsets[group], offsets[group + 1]):
                if filled < found.shape[1] and order[place] != rows[i]:
                    found[i, filled] = order[place]
                    filled += 1


def in_memory(name: str, dtype: Any, length: int) -> NDArray[Any]:
    """Zeros, as `Room` is to give them, in memory."""
    del name
    return np.zeros(length, dtype)


def merge(
    neighbours: FindNeighbours,
    values: NDArray[np.int32],
    seed: int,
    block: int = 1 << 16,
    room: Room = in_memory,
) -> Entries:
    """Return for every entry the one that represents it: itself unless it was absorbed.

    Blocks of entries are visited in random order, and so are the entries of a block: neighbours
    are then read in long runs. Both orders follow from `seed` alone. One visit depends on all
    before it, so they follow each other in one process; what is known of entries lies in `room`.
    """
    representatives = room("representatives", np.int64, len(values))
    absorbers = room("absorbers", np.bool_, len(values))
    for part in blocks_of(len(values), block):
        representatives[part] = np.arange(part.start, part.stop)
    for part, order in visits(len(values), seed, block):
        near = np.ascontiguousarray(neighbours(part), dtype=np.int64)
        wrong = _merge_block(near, part.start, order, values, representatives, absorbers)
        if wrong >= 0:
            raise DamagedStore(
                f"a neighbour of entry {wrong} is not an entry: build the search index anew"
            )
    return representatives


def visits(entries: int, seed: int, block: int) -> Iterator[tuple[slice, Entries]]:
    """Yield blocks of entries in random order, each with the order of its entries."""
    parts = list(blocks_of(entries, block))
    for number in np.argsort(priorities(np.arange(len(parts)), seed)):
        part = parts[number]
        yield part, np.argsort(priorities(np.arange(part.start, part.stop), seed))


@compiled
def _merge_block(
    neighbours: NDArray[np.int64],
    first: int,
    order: NDArray[np.int64],
    values: NDArray[np.int32],
    representatives: NDArray[np.int64],
    absorbers: NDArray[np.bool_],
) -> int:
    """Visit the entries of a block; return the first that has an impossible neighbour, or -1."""
    for place in order:
        entry = first + place
        if representatives[entry] != entry:
            continue
        for j in range(neighbours.shape[1]):
            near = neighbours[place, j]
            if near == -1 or near == entry:
                continue
            if not 0 <= near < values.shape[0]:
                return int(entry)
            free = representatives[near] == near and not absorbers[near]
            if free and values[near] == values[entry]:
                representatives[near] = entry
                absorbers[entry] = True
    return -1


@dataclass(frozen=True)
class Numbered:
    """States in the order of their representatives, block by block.

    `ranks` holds the state of each entry that represents one.
    """

    merged: Entries
    ranks: NDArray[np.uint32]
    count: int
    block: int

    def states(self) -> Iterator[NDArray[np.uint32]]:
        """The state of each entry."""
        return (self.ranks[self.merged[part]] for part in blocks_of(len(self.merged), self.block))

    def representatives(self) -> Iterator[Entries]:
        """The entry that represents each state."""
        return (
            _representing(self.merged, part) for part in blocks_of(len(self.merged), self.block)
        )


def numbered(merged: Entries, block: int = 1 << 16, room: Room = in_memory) -> Numbered:
    """Number the states of what `merge` returned."""
    ranks, count = room("ranks", np.uint32, len(merged)), 0
    for part in blocks_of(len(merged), block):
        chosen = _representing(merged, part)
        ranks[chosen] = np.arange(count, count + len(chosen))
        count += len(chosen)
    return Numbered(merged, ranks, count, block)


def _representing(merged: Entries, part: slice) -> Entries:
    own: Entries = np.arange(part.start, part.stop)
    chosen: Entries = own[merged[part] == own]
    return chosen
