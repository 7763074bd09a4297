"""What the assignment of some rows adds up to, and the adding up of many for a range of states.

All numbers are whole, so that neither the division of rows nor the order of additions matters.
"""

from dataclasses import dataclass

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
from retomaton_dist.clustering.assign import Nearest
from retomaton_dist.clustering.sums import Sums, partial_sums

_SPREAD_STEPS = 2.0**20
_SPREAD_CAP = 2.0**30
_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Tally:
    """Sums over the rows that some states have among the assigned ones.

    `states` are those that have any, ascending; one number or row of the other arrays each. See
    `Sums` for `keys` and `magnitudes`; `spreads` are sums of distances in steps of a spread unit.
    """

    states: StateOfRow
    counts: Counts
    spreads: Counts
    keys: NDArray[np.int64]
    magnitudes: Counts


@dataclass(frozen=True)
class RangeTally:
    """The same for all states of a range, whether they have rows or not; it is added to."""

    sums: Sums
    counts: Counts
    spreads: Counts


def tally_of(keys: Keys, nearest: Nearest, unit: float) -> Tally:
    """Add up rows that were assigned, spreads in steps of `unit`."""
    states, inverse = np.unique(nearest.states, return_inverse=True)
    places: StateOfRow = inverse.astype(np.int32)
    sums = partial_sums(keys, places, 0, len(states))
    counts = np.bincount(places, minlength=len(states))
    spreads = _spreads(places, nearest.distances, len(states), unit)
    return Tally(states, counts, spreads, sums.keys, sums.magnitudes)


def empty_range(first: int, last: int, dimension: int) -> RangeTally:
    """Return the tally of states first..last-1 before anything was added."""
    count = last - first
    sums = Sums(first, np.zeros((count, dimension), np.int64), np.zeros(count, np.int64))
    return RangeTally(sums, np.zeros(count, np.int64), np.zeros(count, np.int64))


def add_tally(total: RangeTally, part: Tally) -> None:
    """Add what a tally has of the range; of its arrays, only that much is read."""
    first = total.sums.first
    low, high = np.searchsorted(part.states, [first, first + len(total.counts)])
    places, some = part.states[low:high] - first, slice(low, high)
    total.sums.keys[places] += part.keys[some]
    total.sums.magnitudes[places] += part.magnitudes[some]
    total.counts[places] += part.counts[some]
    total.spreads[places] += part.spreads[some]


@dataclass(frozen=True)
class Norms:
    """How many centroids there are in some range, and the sum of their squared lengths."""

    count: int
    squares: float


def norms_of(centroids: Centroids) -> Norms:
    """Add up the squared lengths of centroids; those of NaN are none."""
    norms = np.einsum("ij,ij->i", centroids, centroids, dtype=np.float64)
    finite = norms[np.isfinite(norms)]
    return Norms(len(finite), float(finite.sum()))


def spread_unit(norms: Norms) -> float:
    """Return the step in which distances are counted: 2^-20 of the centroids' mean square."""
    mean = norms.squares / max(norms.count, 1)
    return mean / _SPREAD_STEPS if mean > 0 else 1.0


def _spreads(places: StateOfRow, distances: Distances, count: int, unit: float) -> Counts:
    spreads = np.zeros(count, np.int64)
    for part in blocks_of(len(places), _ROWS_AT_ONCE):
        steps = np.minimum(np.rint(distances[part] / unit), _SPREAD_CAP)
        spreads += np.bincount(places[part], steps, count).astype(np.int64)
    return spreads
