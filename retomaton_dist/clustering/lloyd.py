"""Lloyd's iterations over rows that several actors share."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from retomaton_dist.clustering.arrays import Centroids
from retomaton_dist.clustering.cells import Cells
from retomaton_dist.clustering.refill import refill
from retomaton_dist.clustering.shares import Assigned, Shares, spread_unit
from retomaton_dist.clustering.sums import new_centroids, ranges_of_states


@dataclass(frozen=True)
class Iteration:
    """What one iteration found, before it moved the centroids."""

    inertia: float
    moved: float
    empty: int
    refilled: int


@dataclass(frozen=True)
class Progress:
    """Where a run of Lloyd's algorithm is: all it takes to go on after it was killed."""

    centroids: Centroids
    before: Centroids | None = None
    history: tuple[Iteration, ...] = ()


@dataclass(frozen=True)
class Stop:
    """When to stop: after so many iterations, or when inertia falls by less than `tolerance`."""

    iterations: int = 20
    tolerance: float = 1e-3


def lloyd(
    shares: Shares,
    progress: Progress,
    stop: Stop,
    sums_memory: int,
    cells: Cells | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Iterate until `stop` says so, calling `report` after each iteration.

    Going on from a reported progress gives the same bits as never having stopped. The caller
    assigns the rows once more to get the states that belong to the last centroids.
    """
    if progress.before is not None and not stopped(progress, stop):
        shares.assign(progress.before, cells)
    while not stopped(progress, stop):
        progress = step(shares, progress, sums_memory, cells)
        report(progress)
    return progress


def stopped(progress: Progress, stop: Stop) -> bool:
    """Say whether nothing is left to be done."""
    history = progress.history
    if len(history) >= stop.iterations or (history and history[-1].moved == 0):
        return True
    if len(history) < 2 or history[-1].refilled:
        return False
    fall = history[-2].inertia - history[-1].inertia
    return fall < stop.tolerance * history[-2].inertia


def step(shares: Shares, progress: Progress, sums_memory: int, cells: Cells | None) -> Progress:
    """Assign all rows, move every centroid to the mean of its members, refill empty states."""
    before = progress.centroids
    assigned = shares.assign(before, cells)
    means = _means(shares, assigned, before.shape[1], sums_memory)
    whole = np.array([0, len(before)])
    offsets = whole if cells is None else cells.offsets
    refilled = refill(means, assigned.counts, assigned.spreads, spread_unit(before), offsets)
    iteration = Iteration(
        inertia=assigned.inertia,
        moved=assigned.moved / shares.rows if progress.history else 1.0,
        empty=int(np.count_nonzero(assigned.counts == 0)),
        refilled=refilled.filled,
    )
    return Progress(refilled.centroids, before, (*progress.history, iteration))


def _means(shares: Shares, assigned: Assigned, dimension: int, sums_memory: int) -> Centroids:
    means = np.empty((len(assigned.counts), dimension), np.float32)
    for first, last in ranges_of_states(len(means), dimension, sums_memory):
        means[first:last] = new_centroids(shares.sums(first, last), assigned.counts[first:last])
    return means
