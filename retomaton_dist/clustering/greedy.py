"""Greedy merging (He et al. 2021): entries absorb near neighbours of equal value, one hop.

Entries are visited in a seeded order. One that was not absorbed absorbs those of its neighbours
that have its value, were not absorbed, and have absorbed nothing themselves. An entry that absorbs
none is a state of its own; otherwise it represents one state with all that it absorbed.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import States
from retomaton_dist.clustering.blocks import blocks_of
from retomaton_dist.clustering.draw import priorities
from retomaton_dist.compiled import compiled
from retomaton_dist.errors import DamagedStore

Entries = NDArray[np.int64]
Neighbours = Callable[[slice], Entries]
"""Gives the neighbours of consecutive entries, nearest first, -1 where there are too few."""


def merge(
    neighbours: Neighbours, values: NDArray[np.int32], seed: int, block: int = 1 << 16
) -> Entries:
    """Return for every entry the one that represents it: itself unless it was absorbed.

    Blocks of entries are visited in random order, and so are the entries of a block: neighbours
    are then read in long runs. Both orders follow from `seed` alone.
    """
    representatives = np.arange(len(values))
    absorbers = np.zeros(len(values), np.bool_)
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


def numbered(representatives: Entries) -> tuple[States, Entries]:
    """Number the states in the order of their representatives.

    Returns the state of each entry and the representative of each state.
    """
    entries = np.flatnonzero(representatives == np.arange(len(representatives)))
    return np.searchsorted(entries, representatives).astype(np.int32), entries
