"""Sums that come out the same in whatever order they are added: of members, and of distances.

Float16 keys are multiples of 2^-24, so their sum is a whole number of them, which an int64 holds
while the sum stays under 2^39: that is 8 million of the largest keys there are, or 10^11 of usual
ones. Partial sums of any number of actors then add up to the same bits.
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
from retomaton_dist.compiled import compiled
from retomaton_dist.errors import BadInput

UNIT = 2.0**-24
EXACT_BELOW = 2**39
_ROWS_AT_ONCE = 4096
_NUMBERS_AT_ONCE = 1 << 20
_EXPONENTS = 256
_MANTISSA = 23
_POSITIVE = np.int32(0x7FFFFFFF)
_ANCHOR = np.float64(1.5 * 2.0**28)
_ANCHOR_BITS = np.int64(_ANCHOR.view(np.int64))


@dataclass(frozen=True)
class Sums:
    """Sums over the members of states `first`, `first + 1`, ...: one row of `keys` each.

    `keys` count units of 2^-24. `magnitudes` add up the next whole number above every member's
    largest |coordinate|, so that all coordinates' sums stay below them.
    """

    first: int
    keys: NDArray[np.int64]
    magnitudes: Counts


def partial_sums(keys: Keys, states: StateOfRow, first: int, last: int) -> Sums:
    """Sum the keys of the members of states first..last-1 among these rows, exactly."""
    assert keys.dtype == np.float16, "only sums of float16 keys are exact"
    count = last - first
    sums = Sums(first, np.zeros((count, keys.shape[1]), np.int64), np.zeros(count, np.int64))
    for part in blocks_of(len(keys), _ROWS_AT_ONCE):
        rows = torch.from_numpy(np.array(keys[part])).float().numpy()
        _add_rows(rows, states[part], first, sums.keys, sums.magnitudes)
    return sums


def new_centroids(sums: Sums, counts: Counts) -> Centroids:
    """Return the mean of each state's members, NaN where `counts` says there are none.

    Raises BadInput where sums may have left the range of an int64. What is a sum below 2^29 is
    exact in float64 too; beyond it is rounded here, once.
    """
    if not bool((sums.magnitudes <= EXACT_BELOW).all()):
        state = sums.first + int(np.argmax(sums.magnitudes))
        raise BadInput(
            f"the keys of state {state} may add up beyond 2^39, more than a sum can hold: "
            "learn the states from fewer entries (--sample)"
        )
    means = sums.keys * UNIT / np.maximum(counts, 1)[:, None]
    means[counts == 0] = np.nan
    return means.astype(np.float32)


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
    states: NDArray[np.int32],
    first: int,
    sums: NDArray[np.int64],
    magnitudes: NDArray[np.int64],
) -> None:
    # Between 2^28 and 2^29 floats are 2^-24 apart, so there their bits count units. A cast to
    # int64 would do, but takes twice as long where the processor lacks one for vectors (AVX2).
    for i in range(rows.shape[0]):
        place = states[i] - first
        if not 0 <= place < sums.shape[0]:
            continue
        row, total = rows[i], sums[place]
        for j in range(row.shape[0]):
            total[j] += np.float64(row[j] + _ANCHOR).view(np.int64) - _ANCHOR_BITS
        magnitudes[place] += np.int64(_largest(row)) + 1


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
