"""Lloyd's iterations: what each finds, when to stop, and all of them over rows in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from retomaton_dist.clustering.arrays import Centroids, Keys, StateOfRow
from retomaton_dist.clustering.assign import finder
from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.samples import rows_seen, strides_for
from retomaton_dist.clustering.sums import digits_of, total_of
from retomaton_dist.clustering.tally import (
    add_tally,
    empty_range,
    norms_of,
    spread_unit,
    tally_of,
)
from retomaton_dist.clustering.update import moved_centroids


@dataclass(frozen=True)
class Iteration:
    """What one iteration found, before it moved the centroids.

    `inertia` is that of all rows, to judge by the `seen` ones. `moved` is the share of rows that
    changed their states, None if not all were seen both times.
    """

    inertia: float
    moved: float | None
    empty: int
    refilled: int
    seen: int


@dataclass(frozen=True)
class Stop:
    """When to stop: after so many iterations, or when inertia falls by less than `tolerance`."""

    iterations: int = 20
    tolerance: float = 1e-3


def stopped(history: Sequence[Iteration], stop: Stop) -> bool:
    """Say whether nothing is left to be done."""
    if len(history) >= stop.iterations or (history and history[-1].moved == 0):
        return True
    if len(history) < 2 or history[-1].refilled or history[-1].moved is None:
        return False
    fall = history[-2].inertia - history[-1].inertia
    return fall < stop.tolerance * history[-2].inertia


@dataclass(frozen=True)
class InMemory:
    """What k-means in memory comes to: centroids, and what each iteration found."""

    centroids: Centroids
    history: tuple[Iteration, ...]


def lloyd(keys: Keys, start: Centroids, stop: Stop, blocking: Blocking) -> InMemory:
    """Run plain k-means over rows that lie in memory."""
    centroids, history, before = start, tuple[Iteration, ...](), None
    strides = strides_for(len(keys), len(start), stop.iterations)
    while not stopped(history, stop):
        number, whole = len(history), strides[len(history)] == 1
        some = keys if whole else keys[rows_seen(0, len(keys), number, strides[number])]
        centroids, states, found = _step(some, centroids, before, blocking)
        inertia = scaled(found.inertia, len(keys), found.seen)
        moved = found.moved if whole and (before is not None or number == 0) else None
        before = states if whole else None
        history = (*history, replace(found, inertia=inertia, moved=moved))
    return InMemory(centroids, history)


def scaled(inertia: float, rows: int, seen: int) -> float:
    """The inertia of all rows, if that of those that were seen is like it."""
    return inertia if seen == rows else inertia * (rows / max(seen, 1))


def _step(
    keys: Keys, centroids: Centroids, before: StateOfRow | None, blocking: Blocking
) -> tuple[Centroids, StateOfRow, Iteration]:
    """Assign rows, move every centroid to the mean of its members, refill empty states."""
    nearest = finder(centroids, None, blocking)(keys)
    unit = spread_unit(norms_of(centroids))
    total = empty_range(0, len(centroids), keys.shape[1])
    add_tally(total, tally_of(keys, nearest, unit))
    after = moved_centroids(total, unit, np.array([0, len(centroids)]))
    moved = 1.0 if before is None else float(np.mean(before != nearest.states))
    empty = int(np.count_nonzero(total.counts == 0))
    inertia = total_of(digits_of(nearest.distances))
    found = Iteration(inertia, moved, empty, after.filled, len(keys))
    return after.centroids, nearest.states, found


def cluster_rows(
    keys: Keys, states: int, iterations: int, seed: int, blocking: Blocking
) -> Centroids:
    """Find the centroids of rows in memory, from keys drawn among them."""
    start = first_centroids(len(keys), keys.__getitem__, states, seed)
    return lloyd(keys, start, Stop(iterations), blocking).centroids
