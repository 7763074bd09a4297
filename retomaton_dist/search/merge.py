"""Joining what several shards found: always in the order (distance, entry).

FAISS joins shards, but leaves ties inside one in any order: `settle` and `tidy` are ours.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled
from retomaton_dist.search.library import faiss

Distances = NDArray[np.float32]
Entries = NDArray[np.int64]
Found = tuple[Distances, Entries]
"""Neighbours of every query, nearest first, as two [n, k] arrays; a gap is (inf, -1)."""


def merge(parts: Sequence[Found], k: int) -> Found:
    """The k nearest of what the parts hold; every part's entries come after those of the last."""
    if len(parts) == 1 and parts[0][0].shape[1] == k:
        return parts[0]
    shape = len(parts), len(parts[0][0]), k
    distances, entries = np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)
    for number, (distance, entry) in enumerate(parts):
        width = min(k, distance.shape[1])
        distances[number, :, :width] = distance[:, :width]
        entries[number, :, :width] = entry[:, :width]
    # Of equal distances FAISS takes the first part's: those are the lowest entries.
    nearest, which = faiss.merge_knn_results(distances, entries)
    nearest[which < 0] = np.inf
    return nearest, which


def cut_short(parts: Sequence[Found], merged: Found, asked: int) -> NDArray[np.bool_]:
    """Which queries a part may know more of the merged ones of, having given all it was asked for.

    What a part left out is no nearer than its last; and of equal ones, merging wants all.
    """
    last = merged[0][:, -1]
    short = np.zeros(len(last), np.bool_)
    for distances, entries in parts:
        if distances.shape[1] == asked:
            short |= (entries[:, -1] >= 0) & (distances[:, -1] <= last)
    return short


def settle(distances: Distances, rows: Entries, offset: int, first: int, last: int) -> bool:
    """Make entries of what FAISS found, in place and in order; False if one is not first..last-1.

    FAISS counts from `offset`, says -1 for a gap, and leaves ties in any order.
    """
    if not _number(distances, rows, offset, first, last):
        return False
    _tidy(distances, rows)
    return True


def tidy(distances: Distances, entries: Entries) -> None:
    """Bring rows into the order (distance, entry), in place."""
    _tidy(distances, entries)


@compiled
def _number(distances: Distances, rows: Entries, offset: int, first: int, last: int) -> bool:
    for row in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            if rows[row, place] < 0:
                rows[row, place], distances[row, place] = -1, np.inf
                continue
            rows[row, place] += offset
            if rows[row, place] < first or rows[row, place] >= last:
                return False
    return True


@compiled
def _tidy(distances: Distances, entries: Entries) -> None:
    rows, width = distances.shape
    for row in range(rows):
        near, which = distances[row], entries[row]
        for place in range(1, width):
            if near[place] < near[place - 1]:
                order = np.argsort(near, kind="mergesort")
                near[:] = near[order]
                which[:] = which[order]
                break
        start = 0
        for place in range(1, width + 1):
            if place == width or near[place] != near[start]:
                if place - start > 1:
                    which[start:place].sort()
                start = place
