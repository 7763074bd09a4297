"""Lloyd's iterations: what each finds, when to stop, and all of them over rows in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retomaton_dist.clustering.arrays import Centroids, Keys
from retomaton_dist.clustering.assign import find_among_all
from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.samples import rows_seen, strides_for, tells_moves
from retomaton_dist.clustering.sums import (
    add_tally,
    digits_of,
    empty_range,
    norms_of,
    spread_unit,
    tally_of,
    total_of,
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
    """Run plain k-means over rows that lie in memory.

    An iteration assigns the rows that it sees, moves every centroid to the mean of its members and
    refills empty states.
    """
    centroids, history, before = start, tuple[Iteration, ...](), np.empty(0, np.int32)
    strides = strides_for(len(keys), len(start), stop.iterations)
    while not stopped(history, stop):
        number, stride, moved = len(history), strides[len(history)], None
        some = keys if stride == 1 else keys[rows_seen(0, len(keys), number, stride)]
        nearest, unit = find_among_all(centroids, blocking)(some), spread_unit(*norms_of(centroids))
        total = empty_range(0, len(centroids), keys.shape[1])
        add_tally(total, tally_of(some, nearest, unit))
        after = moved_centroids(total, unit, np.array([0, len(centroids)]))
        if tells_moves(strides, number):
            moved = float(np.mean(before != nearest.states)) if number else 1.0
        found = Iteration(
            inertia=scaled(total_of(digits_of(nearest.distances)), len(keys), len(some)),
            moved=moved,
            empty=int(np.count_nonzero(total.counts == 0)),
            refilled=after.filled,
            seen=len(some),
        )
        centroids, before, history = after.centroids, nearest.states, (*history, found)
    return InMemory(centroids, history)


def scaled(inertia: float, rows: int, seen: int) -> float:
    """The inertia of all rows, if that of those that were seen is like it."""
    return inertia if seen == rows else inertia * (rows / max(seen, 1))


def cluster_rows(
    keys: Keys, states: int, iterations: int, seed: int, blocking: Blocking
) -> Centroids:
    """Find the centroids of rows in memory, from keys drawn among them."""
    start = first_centroids(len(keys), keys.__getitem__, states, seed)
    return lloyd(keys, start, Stop(iterations), blocking).centroids
