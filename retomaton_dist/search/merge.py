"""Joining what several shards found: always in the order (distance, entry)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled

Distances = NDArray[np.float32]
Entries = NDArray[np.int64]
Found = tuple[Distances, Entries]
"""Neighbours of every query, nearest first, as two [n, k] arrays; a gap is (inf, -1)."""


def merge(parts: Sequence[Found], k: int) -> Found:
    """The k nearest of what the parts hold; no two parts hold the same entry."""
    if len(parts) == 1 and parts[0][0].shape[1] == k:
        return parts[0]
    rows, width = len(parts[0][0]), max(part[0].shape[1] for part in parts)
    distances = np.full((len(parts), rows, width), np.inf, np.float32)
    entries = np.full((len(parts), rows, width), -1, np.int64)
    for number, (distance, entry) in enumerate(parts):
        distances[number, :, : distance.shape[1]] = distance
        entries[number, :, : entry.shape[1]] = entry
    nearest = np.full((rows, k), np.inf, np.float32), np.full((rows, k), -1, np.int64)
    _merge(distances, entries, *nearest)
    return nearest


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
def _merge(parts: Distances, entries: Entries, nearest: Distances, which: Entries) -> None:
    shards, rows, width = parts.shape
    heads = np.empty(shards, np.int64)
    for row in range(rows):
        heads[:] = 0
        for place in range(nearest.shape[1]):
            best = -1
            for shard in range(shards):
                head = heads[shard]
                if head == width or entries[shard, row, head] < 0:
                    continue
                if best >= 0:
                    nearer = parts[best, row, heads[best]]
                    if parts[shard, row, head] > nearer or (
                        parts[shard, row, head] == nearer
                        and entries[shard, row, head] > entries[best, row, heads[best]]
                    ):
                        continue
                best = shard
            if best < 0:
                break
            nearest[row, place] = parts[best, row, heads[best]]
            which[row, place] = entries[best, row, heads[best]]
            heads[best] += 1


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
