"""Joining what several shards found: always in the order (distance, entry).

FAISS joins shards of one width, and leaves ties inside one in any order. Here each may have
another width, and is read where it lies: results of actors are views of shared memory.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled

Distances = NDArray[np.float32]
Entries = NDArray[np.int64]
Found = tuple[Distances, Entries]
"""Neighbours of every query, nearest first, as two [n, k] arrays; a gap is (inf, -1)."""


def merge(parts: Sequence[Found], k: int) -> Found:
    """The k nearest of what the parts hold; every part's entries come after those of the last."""
    found = _nearest(parts, k)
    if found[0].shape[1] == k:
        return found
    rows = len(found[0])
    return _joined(found, (np.empty((rows, 0), np.float32), np.empty((rows, 0), np.int64)), k)


def _nearest(parts: Sequence[Found], k: int) -> Found:
    """As many as the parts hold, k at most: neighbours are joined first, so that few are moved."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = _nearest(parts[:middle], k), _nearest(parts[middle:], k)
    return _joined(left, right, min(k, left[0].shape[1] + right[0].shape[1]))


def _joined(left: Found, right: Found, width: int) -> Found:
    shape = len(left[0]), width
    found = np.empty(shape, np.float32), np.empty(shape, np.int64)
    _join(*left, *right, *found)
    return found


@compiled
def _join(
    near_left: Distances,
    left: Entries,
    near_right: Distances,
    right: Entries,
    near: Distances,
    which: Entries,
) -> None:
    for row in range(near.shape[0]):
        i = j = 0
        for place in range(near.shape[1]):
            has_left, has_right = i < left.shape[1], j < right.shape[1]
            # Of equal distances the left one is taken: its entry is lower.
            if has_left and not (has_right and near_right[row, j] < near_left[row, i]):
                near[row, place], which[row, place] = near_left[row, i], left[row, i]
                i += 1
            elif has_right:
                near[row, place], which[row, place] = near_right[row, j], right[row, j]
                j += 1
            else:
                near[row, place], which[row, place] = np.inf, -1


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


@compiled
def settle(distances: Distances, rows: Entries, offset: int, first: int, last: int) -> bool:
    """Make entries of what FAISS found, in place and in order; False if one is not first..last-1.

    FAISS counts from `offset`, says -1 for a gap, and leaves ties in any order.
    """
    for row in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            if rows[row, place] < 0:
                rows[row, place], distances[row, place] = -1, np.inf
                continue
            rows[row, place] += offset
            if rows[row, place] < first or rows[row, place] >= last:
                return False
    tidy(distances, rows)
    return True


@compiled
def tidy(distances: Distances, entries: Entries) -> None:
    """Bring rows into the order (distance, entry), in place."""
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
