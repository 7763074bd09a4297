"""The rows that are clustered, however they are divided: what a k-means asks of its actors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import (
    Centroids,
    Counts,
    Distances,
    Keys,
    StateOfRow,
    blocks_of,
)
from retomaton_dist.clustering.assign import Cells, FindStates
from retomaton_dist.clustering.draw import priorities
from retomaton_dist.clustering.sums import Sums, digits_of, total_of

_SPREAD_STEPS = 2.0**20
_SPREAD_CAP = 2.0**30
_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Assigned:
    """What an assignment of some rows adds up to: whole numbers, so that order is no matter.

    `digits` stand for the sum of distances (see `digits_of`); `spreads` are the sums of the
    members' distances per state, in steps of `spread_unit`.
    """

    digits: Counts
    moved: int
    counts: Counts
    spreads: Counts

    @property
    def inertia(self) -> float:
        """The sum of all rows' squared distances to their centroids."""
        return total_of(self.digits)


@dataclass(frozen=True)
class CellSplit:
    """A cell to be clustered on its own into `states` states, from at most `limit` of its rows."""

    cell: int
    states: int
    limit: int
    iterations: int
    seed: int


class Shares(Protocol):
    """All rows of a k-means. An implementation divides them among actors and streams them."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    def take(self, rows: NDArray[np.int64]) -> Keys:
        """Return some rows' keys, numbered in ascending order."""

    def assign(self, centroids: Centroids, cells: Cells | None) -> Assigned:
        """Give every row its state, and remember it for `sums`, `split` and the next `moved`."""

    def sums(self, first: int, last: int) -> Sums:
        """Sum the members of states first..last-1 over all actors."""

    def split(self, splits: Sequence[CellSplit]) -> Sequence[Centroids]:
        """Cluster the members of states on their own, each on one actor, as `split_cell` does."""


def assign_rows(
    keys: Keys, before: StateOfRow | None, find: FindStates, count: int, unit: float
) -> tuple[StateOfRow, Assigned]:
    """Give rows one of `count` states and sum them up, spreads in steps of `unit`.

    `before` are the states the rows were in after the last iteration.
    """
    nearest = find(keys)
    moved = len(keys) if before is None else int(np.count_nonzero(before != nearest.states))
    counts = np.bincount(nearest.states, minlength=count)
    spreads = _spreads(nearest.states, nearest.distances, count, unit)
    return nearest.states, Assigned(digits_of(nearest.distances), moved, counts, spreads)


def add_assigned(parts: Sequence[Assigned]) -> Assigned:
    """Add up the assignments of several shares."""
    return Assigned(
        np.sum([part.digits for part in parts], axis=0),
        sum(part.moved for part in parts),
        np.sum([part.counts for part in parts], axis=0),
        np.sum([part.spreads for part in parts], axis=0),
    )


def by_state(states: StateOfRow, count: int) -> tuple[NDArray[np.int64], Counts]:
    """Order rows by state: state s has rows order[offsets[s] : offsets[s + 1]], ascending."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(states, minlength=count))])
    return np.argsort(states, kind="stable"), offsets


def members_of(
    states: StateOfRow, splits: Sequence[CellSplit], first: int = 0
) -> list[NDArray[np.int64]]:
    """Rows that each split is made from, at most its limit; the first of these rows is `first`."""
    order, offsets = by_state(states, max(split.cell for split in splits) + 1)
    order += first
    return [
        limited(order[offsets[split.cell] : offsets[split.cell + 1]], split) for split in splits
    ]


def limited(members: NDArray[np.int64], split: CellSplit) -> NDArray[np.int64]:
    """Keep at most `split.limit` rows, drawn at random, in ascending order.

    Limiting shares one by one first, and what they keep together once more, comes to the same.
    """
    if len(members) <= split.limit:
        return members
    return members[np.sort(np.argsort(priorities(members, split.seed))[: split.limit])]


def spread_unit(centroids: Centroids) -> float:
    """Return the step in which distances are counted: 2^-20 of the centroids' mean square."""
    norms = np.einsum("ij,ij->i", centroids, centroids, dtype=np.float64)
    mean = float(np.mean(norms[np.isfinite(norms)]))
    return mean / _SPREAD_STEPS if mean > 0 else 1.0


def _spreads(states: StateOfRow, distances: Distances, count: int, unit: float) -> Counts:
    spreads = np.zeros(count, np.int64)
    for part in blocks_of(len(states), _ROWS_AT_ONCE):
        steps = np.minimum(np.rint(distances[part] / unit), _SPREAD_CAP)
        spreads += np.bincount(states[part], steps, count).astype(np.int64)
    return spreads
