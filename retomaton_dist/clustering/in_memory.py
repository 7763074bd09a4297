"""Shares that lie in the memory of one process."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Centroids, Keys, StateOfRow
from retomaton_dist.clustering.assign import Cells, finder
from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.lloyd import LloydProgress, Stop, lloyd
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import (
    Assigned,
    CellSplit,
    add_assigned,
    assign_rows,
    members_of,
    spread_unit,
)
from retomaton_dist.clustering.sums import Sums, add_sums, partial_sums


class InMemory:
    """Rows in one or more parts, each of which could as well be another actor's."""

    def __init__(self, parts: Sequence[Keys], blocking: Blocking) -> None:
        self._parts = parts
        self._blocking = blocking
        self._starts = np.cumsum([0, *map(len, parts)])
        self._states: list[StateOfRow | None] = [None for _ in parts]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self._starts[-1])

    @property
    def states(self) -> StateOfRow:
        """Every row's state as of the last `assign`."""
        return np.concatenate([states for states in self._states if states is not None])

    def take(self, rows: NDArray[np.int64]) -> Keys:
        """Return some rows' keys, numbered in ascending order."""
        bounds = np.searchsorted(rows, self._starts)
        found = [
            part[rows[bounds[i] : bounds[i + 1]] - self._starts[i]]
            for i, part in enumerate(self._parts)
        ]
        return np.concatenate(found)

    def assign(self, centroids: Centroids, cells: Cells | None) -> Assigned:
        """Give every row its state, part by part."""
        find = finder(centroids, cells, self._blocking)
        places = len(centroids), spread_unit(centroids)
        parts = []
        for i, keys in enumerate(self._parts):
            self._states[i], assigned = assign_rows(keys, self._states[i], find, *places)
            parts.append(assigned)
        return add_assigned(parts)

    def sums(self, first: int, last: int) -> Sums:
        """Sum the members of states first..last-1, part by part."""
        pairs = zip(self._parts, self._states, strict=True)
        sums = [partial_sums(keys, st, first, last) for keys, st in pairs if st is not None]
        return reduce(add_sums, sums)

    def split(self, splits: Sequence[CellSplit]) -> Sequence[Centroids]:
        """Cluster the members of states on their own, one after the other."""
        return [
            split_cell(self.take(rows), split, self._blocking)
            for rows, split in zip(members_of(self.states, splits), splits, strict=True)
        ]


def split_cell(keys: Keys, split: CellSplit, blocking: Blocking) -> Centroids:
    """Cluster the rows of one cell by plain k-means."""
    shares = InMemory([keys], blocking)
    start = LloydProgress(first_centroids(len(keys), shares.take, split.states, split.seed))
    stop = Stop(split.iterations)
    return lloyd(shares, start, stop, sums_memory=1 << 30).centroids
