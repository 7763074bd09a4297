"""From candidates to probabilities, the end of a step.

Kernels make log-sums for a grid of temperatures or sparse distributions; plain functions below
them make p_auto of log-sums, and p of p_auto and p_lm.

A candidate weighs exp(-distance / temperature), times the pointer weight if it is in P. So four
sums say everything about one target: over the candidates with its value and over all, each for
those in P (pointed) and for the others. No vector of the vocabulary's size is ever made.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.automaton.arrays import LaneArrays
from retomaton_dist.automaton.tables import FREE, place_of, table_size
from retomaton_dist.compiled import Whole, compiled

Floats = NDArray[np.float64]

# Axes of log-sums: [..., TARGET or ALL, POINTED or OTHER].
TARGET, ALL = 0, 1
POINTED, OTHER = 0, 1
# exp(-60) of the largest weight is lost in float64 even 10^9 times over.
_FAR = 60.0
_LEAST = math.exp(-_FAR)


@compiled
def log_sums(
    lanes: LaneArrays,
    chosen: NDArray[np.int64],
    targets: NDArray[np.int32],
    temperatures: Floats,
    out: Floats,
) -> None:
    """Fill out[i, j, TARGET or ALL, POINTED or OTHER] for chosen lane i and rising temperature j.

    It is log sum exp(-distance / temperature), and -infinity where there is no candidate. If `out`
    has room for TARGET alone, only candidates with the target's value are added up, which are few.
    """
    nearest = np.empty((2, 2))
    for i in range(chosen.shape[0]):
        _nearest(lanes, chosen[i], targets[i], nearest)
        _add_up(lanes, chosen[i], targets[i], temperatures, nearest, out[i])


@compiled
def _nearest(lanes: LaneArrays, lane: Whole, target: Whole, nearest: Floats) -> None:
    nearest[:] = np.inf
    for i in range(lanes.counts[lane]):
        group = POINTED if lanes.pointed[lane, i] else OTHER
        distance = np.float64(lanes.distances[lane, i])
        nearest[ALL, group] = min(nearest[ALL, group], distance)
        if lanes.values[lane, i] == target:
            nearest[TARGET, group] = min(nearest[TARGET, group], distance)


@compiled
def _add_up(
    lanes: LaneArrays,
    lane: Whole,
    target: Whole,
    temperatures: Floats,
    nearest: Floats,
    sums: Floats,
) -> None:
    sums[:] = 0.0
    of_all = sums.shape[1] > ALL
    for i in range(lanes.counts[lane]):
        if not of_all and lanes.values[lane, i] != target:
            continue
        group = POINTED if lanes.pointed[lane, i] else OTHER
        distance = np.float64(lanes.distances[lane, i])
        if distance == np.inf:
            continue
        if of_all:
            _add_powers(sums, ALL, group, temperatures, distance - nearest[ALL, group])
        if lanes.values[lane, i] == target:
            _add_powers(sums, TARGET, group, temperatures, distance - nearest[TARGET, group])
    for j in range(temperatures.shape[0]):
        for which in range(sums.shape[1]):
            for group in range(2):
                total = sums[j, which, group]
                shift = nearest[which, group] / temperatures[j]
                sums[j, which, group] = math.log(total) - shift if total > 0 else -np.inf


@compiled
def _add_powers(
    sums: Floats,
    which: Whole,
    group: Whole,
    temperatures: Floats,
    behind: float,
) -> None:
    """Add exp(-behind / temperature) to the sums of every temperature, from the last to the first.

    Temperatures rise, so that after one whose weight is lost all are. Where one is half of the one
    after it, or of the one after that, its weight is that one's square: a grid of octaves costs one
    exponential, one of half octaves two.
    """
    last = temperatures.shape[0] - 1
    after = beyond = 0.0
    for j in range(last, -1, -1):
        twice = temperatures[j] * 2.0
        if j < last and twice == temperatures[j + 1]:
            weight = after * after
        elif j + 1 < last and twice == temperatures[j + 2]:
            weight = beyond * beyond
        else:
            weight = math.exp(-behind / temperatures[j])
        if weight < _LEAST:
            break
        sums[j, which, group] += weight
        beyond, after = after, weight


@compiled
def distributions(
    lanes: LaneArrays,
    chosen: NDArray[np.int64],
    temperatures: Floats,
    pointer_weights: Floats,
    tokens: NDArray[np.int32],
    probabilities: Floats,
    counts: NDArray[np.int64],
) -> None:
    """Fill row i with the values among the candidates of chosen lane i and their p_auto.

    There is a p_auto for every temperature and its pointer weight: probabilities[i, version].
    """
    size = table_size(lanes.slots.shape[1])
    table, places = np.empty(size, np.int64), np.empty(size, np.int64)
    order = np.argsort(-temperatures)
    twice = _twice_as_warm(temperatures)
    for i in range(chosen.shape[0]):
        counts[i] = _gather(
            lanes,
            chosen[i],
            temperatures,
            order,
            twice,
            pointer_weights,
            tokens[i],
            probabilities[i],
            table,
            places,
        )
        for version in range(temperatures.shape[0]):
            total = probabilities[i, version, : counts[i]].sum()
            if total > 0:
                probabilities[i, version, : counts[i]] /= total


@compiled
def _gather(
    lanes: LaneArrays,
    lane: Whole,
    temperatures: Floats,
    order: NDArray[np.int64],
    twice: NDArray[np.int64],
    pointer_weights: Floats,
    tokens: NDArray[np.int32],
    weights: Floats,
    table: NDArray[np.int64],
    places: NDArray[np.int64],
) -> Whole:
    """Sum the weights of equal values; return how many values there are.

    Versions come in `order`, so that what is `twice` as warm as one is known before it: the weight
    at half a temperature is a square, and exponentials are what takes time here.
    """
    nearest, powers = np.inf, np.empty(temperatures.shape[0])
    for i in range(lanes.counts[lane]):
        nearest = min(nearest, np.float64(lanes.distances[lane, i]))
    size = table_size(lanes.counts[lane])
    table[:size] = FREE
    count = 0
    for i in range(lanes.counts[lane]):
        distance = np.float64(lanes.distances[lane, i])
        if distance == np.inf:
            continue
        value = np.int64(np.uint32(lanes.values[lane, i]))
        place = place_of(table, size, value)
        if table[place] == FREE:
            table[place] = value
            places[place] = count
            tokens[count] = lanes.values[lane, i]
            weights[:, count] = 0.0
            count += 1
        for version in order:
            if twice[version] >= 0:
                powers[version] = powers[twice[version]] ** 2
            else:
                powers[version] = _exponential(distance, nearest, temperatures[version])
            weight = pointer_weights[version] if lanes.pointed[lane, i] else 1.0
            weights[version, places[place]] += weight * powers[version]
    return count


@compiled
def _twice_as_warm(temperatures: Floats) -> NDArray[np.int64]:
    """For each temperature the place of one that is exactly twice it, -1 if there is none."""
    found = np.full(temperatures.shape[0], -1)
    for i in range(temperatures.shape[0]):
        for j in range(temperatures.shape[0]):
            if temperatures[j] == 2.0 * temperatures[i]:
                found[i] = j
    return found


@compiled
def _exponential(distance: float, nearest: float, temperature: float) -> float:
    exponent = (nearest - distance) / temperature
    return math.exp(exponent) if exponent > -_FAR else 0.0


@compiled
def observe(
    lanes: LaneArrays,
    chosen: NDArray[np.int64],
    nearest: NDArray[np.float32],
    pointed: NDArray[np.int32],
) -> None:
    """Fill each lane's smallest distance (infinite: no candidate), and how many are in P."""
    for i in range(chosen.shape[0]):
        lane = chosen[i]
        smallest, count = np.float32(np.inf), 0
        for j in range(lanes.counts[lane]):
            smallest = min(smallest, lanes.distances[lane, j])
            count += lanes.pointed[lane, j]
        nearest[i], pointed[i] = smallest, count


def log_automaton(sums: Floats, pointer_weight: float = 1.0) -> Floats:
    """Logarithm of the targets' p_auto, [lanes, temperatures]; NaN without candidates."""
    shift = np.log(pointer_weight)
    weighed = np.logaddexp(sums[..., POINTED] + shift, sums[..., OTHER])
    with np.errstate(invalid="ignore"):
        result: Floats = weighed[..., TARGET] - weighed[..., ALL]
    return result


def interpolate(log_auto: Floats, log_lm: ArrayLike, weight: ArrayLike) -> Floats:
    """Logarithm of p: log(lambda p_auto + (1 - lambda) p_lm); p = p_lm where p_auto is NaN."""
    share, lm = np.asarray(weight, np.float64), np.asarray(log_lm, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = np.logaddexp(np.log(share) + log_auto, np.log1p(-share) + lm)
    result: Floats = np.where(np.isnan(log_auto), lm, mixed)
    return result
