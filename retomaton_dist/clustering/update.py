"""Where centroids go after an assignment: to the means of their members, or to half of another's.

A state that goes empty gets a new centroid, by splitting one whose members lie far apart.
"""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Centroids, Counts
from retomaton_dist.clustering.draw import priorities
from retomaton_dist.clustering.sums import UNIT, RangeTally
from retomaton_dist.errors import BadInput

EXACT_BELOW = 2**39
_STEP = 1 / 16


@dataclass(frozen=True)
class Refilled:
    """Centroids after empty states were refilled, and how many were; the rest stays empty."""

    centroids: Centroids
    filled: int


def moved_centroids(tally: RangeTally, unit: float, offsets: Counts) -> Refilled:
    """Return the means of a range of whole cells, whose empty states are refilled.

    `offsets` are the cells' first states, within the range's first and last; `unit` is the step
    that spreads were counted in.
    """
    means = means_of(tally)
    return refill(means, tally.counts, tally.spreads, unit, offsets, tally.first)


def means_of(tally: RangeTally) -> Centroids:
    """Return the mean of each state's members, NaN where there are none.

    Raises BadInput where sums may have left the range of an int64. What is a sum below 2^29 is
    exact in float64 too; beyond it is rounded here, once.
    """
    if not bool((tally.magnitudes <= EXACT_BELOW).all()):
        state = tally.first + int(np.argmax(tally.magnitudes))
        raise BadInput(
            f"the keys of state {state} may add up beyond 2^39, more than a sum can hold: "
            "learn the states from fewer entries (--sample)"
        )
    means = tally.keys * UNIT / np.maximum(tally.counts, 1)[:, None]
    means[tally.counts == 0] = np.nan
    return means.astype(np.float32)


def refill(
    centroids: Centroids,
    counts: Counts,
    spreads: Counts,
    unit: float,
    offsets: Counts,
    base: int = 0,
) -> Refilled:
    """Give empty states a centroid by splitting others of the same cell in two.

    The state with the largest spread (sum of its members' distances, in steps of `unit`) is split
    first: its centroid moves a little to one side and the empty state's to the other. A state
    whose members are all equal has no spread and is never split, so an empty state that finds
    none to split stays empty: its centroid is NaN. `offsets` are the cells' first states, of
    which the first is `base`; [0, K] makes all states one cell.
    """
    result, offsets = centroids.copy(), offsets - base
    filled = 0
    for cell in np.unique(np.searchsorted(offsets, np.flatnonzero(counts == 0), "right") - 1):
        first, last = int(offsets[cell]), int(offsets[cell + 1])
        pairs = _pairs(counts[first:last], spreads[first:last])
        for empty, donor, size, spread in pairs:
            rms = np.sqrt(spread * unit / size / centroids.shape[1])
            step = _signs(base + first + empty, centroids.shape[1]) * np.float32(_STEP * rms)
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
