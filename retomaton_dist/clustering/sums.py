"""What the assignment of rows adds up to: whole numbers, so that no order of additions matters.

Float16 keys are multiples of 2^-24, so their sum is a whole number of them, which an int64 holds
while the sum stays under 2^39: that is 8 million of the largest keys there are, or 10^11 of usual
ones. Distances are added up as mantissas, by exponent (digits), or in steps of a unit (spreads).
"""

from dataclasses import dataclass

import numpy as np
import torch
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
from retomaton_dist.compiled import compiled

UNIT = 2.0**-24
_ROWS_AT_ONCE = 4096
_NUMBERS_AT_ONCE = 1 << 20
_EXPONENTS = 256
_MANTISSA = 23
_POSITIVE = np.int32(0x7FFFFFFF)
_ANCHOR = np.float64(1.5 * 2.0**28)
_ANCHOR_BITS = np.int64(_ANCHOR.view(np.int64))
_SPREAD_STEPS = 2.0**20
_SPREAD_CAP = 2.0**30


@dataclass(frozen=True)
class Tally:
    """Sums over the rows that some states have among the assigned ones.

    `states` are those that have any, ascending; one number or row of the other arrays each. `keys`
    count units of 2^-24. `magnitudes` add up the next whole number above every member's largest
    |coordinate|, so that all coordinates' sums stay below them. `spreads` are sums of distances in
    steps of a spread unit.
    """

    states: StateOfRow
    counts: Counts
    spreads: Counts
    keys: NDArray[np.int64]
    magnitudes: Counts


@dataclass(frozen=True)
class RangeTally:
    """The same for states `first`, `first + 1`, ..., with rows or without; it is added to."""

    first: int
    counts: Counts
    spreads: Counts
    keys: NDArray[np.int64]
    magnitudes: Counts


def tally_of(keys: Keys, nearest: Nearest, unit: float) -> Tally:
    """Add up rows that were assigned, spreads in steps of `unit`."""
    states, inverse = np.unique(nearest.states, return_inverse=True)
    places: StateOfRow = inverse.astype(np.int32)
    counts = np.bincount(places, minlength=len(states))
    spreads = np.zeros(len(states), np.int64)
    for part in blocks_of(len(places), _NUMBERS_AT_ONCE):
        steps = np.minimum(np.rint(nearest.distances[part] / unit), _SPREAD_CAP)
        spreads += np.bincount(places[part], steps, len(states)).astype(np.int64)
    return Tally(states, counts, spreads, *partial_sums(keys, places, len(states)))


def partial_sums(keys: Keys, places: StateOfRow, count: int) -> tuple[NDArray[np.int64], Counts]:
    """Sum the keys of the rows at each of `count` places, exactly: keys and magnitudes."""
    assert keys.dtype == np.float16, "only sums of float16 keys are exact"
    sums, magnitudes = np.zeros((count, keys.shape[1]), np.int64), np.zeros(count, np.int64)
    for part in blocks_of(len(keys), _ROWS_AT_ONCE):
        rows = torch.from_numpy(np.array(keys[part])).float().numpy()
        _add_rows(rows, places[part], sums, magnitudes)
    return sums, magnitudes


@compiled
def _largest(row: NDArray[np.float32]) -> np.float32:
    # As in `contenders`: magnitudes compare like whole numbers, and LLVM vectorises only that.
    largest = np.int32(0)
    for j in range(row.shape[0]):
        largest = max(largest, np.float32(row[j]).view(np.int32) & _POSITIVE)
    return np.int32(largest).view(np.float32)


@compiled
def _add_rows(
    rows: NDArray[np.float32],
    places: NDArray[np.int32],
    sums: NDArray[np.int64],
    magnitudes: NDArray[np.int64],
) -> None:
    # Between 2^28 and 2^29 floats are 2^-24 apart, so there their bits count units. A cast to
    # int64 would do, but takes twice as long where the processor lacks one for vectors (AVX2).
    for i in range(rows.shape[0]):
        row, total = rows[i], sums[places[i]]
        for j in range(row.shape[0]):
            total[j] += np.float64(row[j] + _ANCHOR).view(np.int64) - _ANCHOR_BITS
        magnitudes[places[i]] += np.int64(_largest(row)) + 1


def empty_range(first: int, last: int, dimension: int) -> RangeTally:
    """Return the tally of states first..last-1 before anything was added."""
    counts, spreads, magnitudes = np.zeros((3, last - first), np.int64)
    keys = np.zeros((last - first, dimension), np.int64)
    return RangeTally(first, counts, spreads, keys, magnitudes)


def add_tally(total: RangeTally, part: Tally) -> None:
    """Add what a tally has of the range; of its arrays, only that much is read."""
    bounds = total.first, total.first + len(total.counts)
    some = slice(*np.searchsorted(part.states, bounds))
    places = part.states[some] - total.first
    for name in ("counts", "spreads", "keys", "magnitudes"):
        getattr(total, name)[places] += getattr(part, name)[some]


def norms_of(centroids: Centroids) -> tuple[int, float]:
    """Count centroids and add up their squared lengths; those of NaN are none."""
    norms = np.einsum("ij,ij->i", centroids, centroids, dtype=np.float64)
    finite = norms[np.isfinite(norms)]
    return len(finite), float(finite.sum())


def spread_unit(count: int, squares: float) -> float:
    """Return the step in which distances are counted: 2^-20 of the centroids' mean square."""
    mean = squares / max(count, 1)
    return mean / _SPREAD_STEPS if mean > 0 else 1.0


def digits_of(numbers: Distances) -> Counts:
    """Add up the mantissas of non-negative numbers, one sum per exponent.

    Digits of several arrays add up to the digits of all, exactly, below 2^39 numbers.
    """
    digits = np.zeros(_EXPONENTS, np.int64)
    for part in blocks_of(len(numbers), _NUMBERS_AT_ONCE):
        bits = numbers[part].view(np.int32)
        exponents = bits >> _MANTISSA
        mantissas = bits & (2**_MANTISSA - 1) | (exponents > 0).astype(np.int32) << _MANTISSA
        digits += np.bincount(exponents, mantissas, _EXPONENTS).astype(np.int64)
    return digits


def total_of(digits: Counts) -> float:
    """Return the sum that the digits stand for, rounded once."""
    whole = sum(digit << max(exponent - 1, 0) for exponent, digit in enumerate(digits.tolist()))
    return float(whole / 2**149)
