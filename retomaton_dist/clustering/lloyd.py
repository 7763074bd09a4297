"""Lloyd's iterations over rows that several actors share.

A state that goes empty gets a new centroid, by splitting one whose members lie far apart.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Centroids, Counts
from retomaton_dist.clustering.assign import Cells
from retomaton_dist.clustering.draw import priorities
from retomaton_dist.clustering.shares import Assigned, Shares, spread_unit
from retomaton_dist.clustering.sums import new_centroids, ranges_of_states

_STEP = 1 / 16


@dataclass(frozen=True)
class Iteration:
    """What one iteration found, before it moved the centroids."""

    inertia: float
    moved: float
    empty: int
    refilled: int


@dataclass(frozen=True)
class LloydProgress:
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
    progress: LloydProgress,
    stop: Stop,
    sums_memory: int,
    cells: Cells | None = None,
    report: Callable[[LloydProgress], None] = lambda _: None,
) -> LloydProgress:
    """Iterate until `stop` says so, calling `report` after each iteration.

    Going on from a reported progress gives the same bits as never having stopped. The caller
    assigns the rows once more to get the states that belong to the last centroids.
    """
    if progress.before is not None and not stopped(progress, stop):
        shares.assign(progress.before, cells)
    while not stopped(progress, stop):
        progress = _step(shares, progress, sums_memory, cells)
        report(progress)
    return progress


def stopped(progress: LloydProgress, stop: Stop) -> bool:
    """Say whether nothing is left to be done."""
    history = progress.history
    if len(history) >= stop.iterations or (history and history[-1].moved == 0):
        return True
    if len(history) < 2 or history[-1].refilled:
        return False
    fall = history[-2].inertia - history[-1].inertia
    return fall < stop.tolerance * history[-2].inertia


def _step(
    shares: Shares, progress: LloydProgress, sums_memory: int, cells: Cells | None
) -> LloydProgress:
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
    return LloydProgress(refilled.centroids, before, (*progress.history, iteration))


def _means(shares: Shares, assigned: Assigned, dimension: int, sums_memory: int) -> Centroids:
    means = np.empty((len(assigned.counts), dimension), np.float32)
    for first, last in ranges_of_states(len(means), dimension, sums_memory):
        means[first:last] = new_centroids(shares.sums(first, last), assigned.counts[first:last])
    return means


@dataclass(frozen=True)
class Refilled:
    """Centroids after empty states were refilled, and how many were; the rest stays empty."""

    centroids: Centroids
    filled: int


def refill(
    centroids: Centroids, counts: Counts, spreads: Counts, unit: float, offsets: Counts
) -> Refilled:
    """Give empty states a centroid by splitting others of the same cell in two.

    The state with the largest spread (sum of its members' distances, in steps of `unit`) is split
    first: its centroid moves a little to one side and the empty state's to the other. A state
    whose members are all equal has no spread and is never split, so an empty state that finds
    none to split stays empty: its centroid is NaN. `offsets` are the cells' first states; [0, K]
    makes all states one cell.
    """
    result = centroids.copy()
    filled = 0
    for cell in np.unique(np.searchsorted(offsets, np.flatnonzero(counts == 0), "right") - 1):
        first, last = int(offsets[cell]), int(offsets[cell + 1])
        pairs = _pairs(counts[first:last], spreads[first:last])
        for empty, donor, size, spread in pairs:
            rms = np.sqrt(spread * unit / size / centroids.shape[1])
            step = _signs(first + empty, centroids.shape[1]) * np.float32(_STEP * rms)
            result[first + empty] = result[first + donor] - step
            result[first + donor] += step
        filled += len(pairs)
    return Refilled(result, filled)


def _pairs(counts: Counts, spreads: Counts) -> list[tuple[int, int, int, int]]:
    """Pair empty states, in order, with states to split and the size and spread of those."""
    empties = np.flatnonzero(counts == 0).tolist()
    order = np.argsort(-spreads, kind="stable")[: len(empties)]
    donors = [(-int(spreads[s]), int(s), int(counts[s])) for s in order if counts[s] > 1]
    heapq.heapify(donors)
    pairs = []
    for empty in empties:
        if not donors or donors[0][0] == 0:
            break
        spread, donor, size = donors[0]
        pairs.append((empty, donor, size, -spread))
        heapq.heapreplace(donors, (-(-spread // 2), donor, max(size // 2, 1)))
        heapq.heappush(donors, (-(-spread // 2), empty, max(size // 2, 1)))
    return pairs


def _signs(state: int, dimension: int) -> NDArray[np.float32]:
    bits = priorities(np.arange(dimension), state) >> np.uint64(63)
    return np.where(bits == 0, np.float32(1), np.float32(-1))
