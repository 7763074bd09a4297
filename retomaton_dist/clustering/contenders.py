"""Exact nearest targets out of inexact matrix products.

A float32 product gives |t|^2 - 2<x, t> with a rounding error that depends on block shapes, threads
and devices, but never exceeds a bound. So every target gets an interval instead of a number, and a
row keeps as *contenders* those whose interval still reaches the `count` lowest. Usually just
`count` remain; where more do, distances in float64 decide, and ties go to the lower target. Hence
what is found depends on the row and on the targets it was compared with alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled

SEGMENT = 128
SPARE = 8
_HIGHEST = np.int32(0x7FFFFFFF)
_SIGN = np.int32(31)
_INFINITY = np.float32(np.inf)


class Contenders(NamedTuple):
    """The targets that may be among the nearest of each row of a block, by ascending `highs`.

    A row has `missed` some once there were more than it has room for.
    """

    lows: NDArray[np.float32]
    highs: NDArray[np.float32]
    targets: NDArray[np.int32]
    filled: NDArray[np.int32]
    missed: NDArray[np.bool_]


def no_contenders(rows: int, count: int) -> Contenders:
    """Return the contenders of `rows` rows before any target was seen."""
    shape = rows, count + SPARE
    return Contenders(
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
        np.empty(shape, np.int32),
        np.zeros(rows, np.int32),
        np.zeros(rows, np.bool_),
    )


def slack(dimension: int) -> float:
    """Bound the error of |t|^2 - 2<x, t> in float32, relative to 2|x||t| + |t|^2.

    A sum of n products errs by at most n 2^-24 of the sum of their magnitudes in any order of
    summation; the 16 pays for norms and intervals, the per cent for terms of second order.
    """
    return 1.01 * (dimension + 16) * 2.0**-24


@compiled
def _smallest(products: NDArray[np.float32], norms: NDArray[np.float32]) -> np.float32:
    # Floats compare like whole numbers once negative ones are mirrored; LLVM vectorises only that.
    smallest = _HIGHEST
    for j in range(products.shape[0]):
        bits = np.float32(products[j] + norms[j]).view(np.int32)
        smallest = min(smallest, bits ^ ((bits >> _SIGN) & _HIGHEST))
    bits = np.int32(smallest)
    return np.int32(bits ^ ((bits >> _SIGN) & _HIGHEST)).view(np.float32)


@compiled
def _limit(contenders: Contenders, row: int, count: int) -> np.float32:
    return contenders.highs[row, count - 1] if contenders.filled[row] >= count else _INFINITY


@compiled
def _insert(
    contenders: Contenders, row: int, count: int, low: np.float32, high: np.float32, target: int
) -> np.float32:
    """Insert a target, drop those that it puts out of reach, and return the limit of reach."""
    lows, highs, targets = contenders.lows[row], contenders.highs[row], contenders.targets[row]
    filled = contenders.filled[row]
    if filled == highs.shape[0]:
        contenders.missed[row] = True
        filled -= 1
    place = filled
    while place > 0 and highs[place - 1] > high:
        lows[place] = lows[place - 1]
        highs[place] = highs[place - 1]
        targets[place] = targets[place - 1]
        place -= 1
    lows[place] = low
    highs[place] = high
    targets[place] = target
    filled += 1
    limit = highs[count - 1] if filled >= count else _INFINITY
    while lows[filled - 1] > limit:
        filled -= 1
    contenders.filled[row] = filled
    return limit


@compiled
def fold(
    products: NDArray[np.float32],
    rows: NDArray[np.int64],
    row_lengths: NDArray[np.float32],
    norms: NDArray[np.float32],
    lengths: NDArray[np.float32],
    reaches: NDArray[np.float32],
    first: int,
    relative: np.float32,
    count: int,
    contenders: Contenders,
) -> None:
    """Let targets `first`, `first + 1`, ... contend, one column of `products` each.

    `products[i, j]` is -2<x, t> for row `rows[i]` of the block. Segments of targets whose lowest
    value, less the error of their longest, is out of reach are passed over as a whole.
    """
    two = np.float32(2)
    for i in range(products.shape[0]):
        row = rows[i]
        twice = two * row_lengths[row]
        limit = _limit(contenders, row, count)
        for segment in range(reaches.shape[0]):
            start = segment * SEGMENT
            some = products[i, start : start + SEGMENT]
            some_norms = norms[start : start + SEGMENT]
            margin = relative * reaches[segment] * (twice + reaches[segment])
            if _smallest(some, some_norms) - margin > limit:
                continue
            for j in range(some.shape[0]):
                value = some[j] + some_norms[j]
                if value - margin > limit or value == _INFINITY:
                    continue
                length = lengths[start + j]
                error = relative * length * (twice + length)
                if value - error <= limit:
                    target = first + start + j
                    limit = _insert(contenders, row, count, value - error, value + error, target)


@compiled
def fold_listed(
    lows: NDArray[np.float32],
    columns: NDArray[np.int64],
    rows: NDArray[np.int64],
    row_lengths: NDArray[np.float32],
    lengths: NDArray[np.float32],
    first: int,
    relative: np.float32,
    count: int,
    contenders: Contenders,
) -> None:
    """Let the targets contend whose `lows` a device found lowest, in ascending order.

    Where even the last of them is within reach, others may have been left out: unless all targets
    are listed, the row has missed some.
    """
    two = np.float32(2)
    last = lows.shape[1] - 1
    for i in range(lows.shape[0]):
        row = rows[i]
        twice = two * row_lengths[row]
        for j in range(lows.shape[1]):
            length = lengths[columns[i, j]]
            error = relative * length * (twice + length)
            if lows[i, j] <= _limit(contenders, row, count) and lows[i, j] < _INFINITY:
                high = lows[i, j] + two * error
                _insert(contenders, row, count, lows[i, j], high, first + columns[i, j])
        unseen = lows.shape[1] < lengths.shape[0] and lows[i, last] < _INFINITY
        if unseen and lows[i, last] <= _limit(contenders, row, count):
            contenders.missed[row] = True


@compiled
def squared_distance(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """Return |left - right|^2 in float64, summed in one fixed order in eight parts."""
    a = b = c = d = e = f = g = h = 0.0
    whole = left.shape[0] // 8 * 8
    for j in range(0, whole, 8):
        a += (np.float64(left[j]) - np.float64(right[j])) ** 2
        b += (np.float64(left[j + 1]) - np.float64(right[j + 1])) ** 2
        c += (np.float64(left[j + 2]) - np.float64(right[j + 2])) ** 2
        d += (np.float64(left[j + 3]) - np.float64(right[j + 3])) ** 2
        e += (np.float64(left[j + 4]) - np.float64(right[j + 4])) ** 2
        f += (np.float64(left[j + 5]) - np.float64(right[j + 5])) ** 2
        g += (np.float64(left[j + 6]) - np.float64(right[j + 6])) ** 2
        h += (np.float64(left[j + 7]) - np.float64(right[j + 7])) ** 2
    for j in range(whole, left.shape[0]):
        a += (np.float64(left[j]) - np.float64(right[j])) ** 2
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def _rank(
    distance: float, target: int, found: NDArray[np.int32], distances: NDArray[np.float64]
) -> None:
    place = found.shape[0]
    while place > 0 and (
        distance < distances[place - 1]
        or (distance == distances[place - 1] and target < found[place - 1])
    ):
        if place < found.shape[0]:
            distances[place] = distances[place - 1]
            found[place] = found[place - 1]
        place -= 1
    if place < found.shape[0]:
        distances[place] = distance
        found[place] = target


@compiled
def settle(
    rows: NDArray[np.float32],
    targets: NDArray[np.float32],
    contenders: Contenders,
    ranked: bool,
    found: NDArray[np.int32],
    distances: NDArray[np.float64],
) -> None:
    """Fill `found` with the nearest targets of each row, nearest first, ties to the lower target.

    `found` comes filled with -1 and `distances` with infinity, and so they stay where there are
    fewer targets than asked for, and in rows that missed some: they are left to `scan`. If
    `ranked` is false the nearest may come in any order, and without distances.
    """
    count = found.shape[1]
    for i in range(rows.shape[0]):
        filled = contenders.filled[i]
        if contenders.missed[i] or filled == 0:
            continue
        if filled <= count and not ranked:
            found[i, :filled] = contenders.targets[i, :filled]
            continue
        limit = contenders.highs[i, min(count, filled) - 1]
        for j in range(filled):
            if contenders.lows[i, j] <= limit:
                target = contenders.targets[i, j]
                distance = squared_distance(rows[i], targets[target])
                _rank(distance, target, found[i], distances[i])


@compiled
def scan(
    rows: NDArray[np.float32],
    some: NDArray[np.int64],
    targets: NDArray[np.float32],
    first: int,
    last: int,
    found: NDArray[np.int32],
    distances: NDArray[np.float64],
) -> None:
    """Compare some of the rows with targets first..last-1 in float64; those of NaN are not found.

    What was found before competes, so that ranges of targets may come one by one.
    """
    for i in some:
        for j in range(first, last):
            _rank(squared_distance(rows[i], targets[j]), j, found[i], distances[i])
