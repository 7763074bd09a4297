"""Exact nearest neighbours of keys among all keys, by comparing each with each."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Keys
from retomaton_dist.clustering.blocks import blocks_of
from retomaton_dist.clustering.draw import digests
from retomaton_dist.clustering.greedy import Entries, Neighbours
from retomaton_dist.clustering.products import (
    Blocking,
    begin,
    contend,
    load_block,
    load_slabs,
    rooms_on,
    settled,
)
from retomaton_dist.compiled import compiled

EXACT_ENTRIES = 200_000
"""Up to here an exact search is worth it: entries^2 x dimension takes minutes on two cores."""


def exact_neighbours(keys: Keys, k: int, blocking: Blocking) -> Neighbours:
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
    rooms = rooms_on(blocking.device)

    def find(entries: slice) -> Entries:
        found = np.full((entries.stop - entries.start, k), -1, np.int64)
        for part in blocks_of(len(found), blocking.rows):
            rows = np.arange(entries.start + part.start, entries.start + part.stop)
            contest = begin(load_block(keys[rows], blocking.device), k + 1, rooms)
            for slab in slabs:
                contend(contest, slab, np.arange(len(rows)))
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
