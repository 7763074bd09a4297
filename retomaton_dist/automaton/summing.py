"""From candidates to probabilities: log-sums for a grid of temperatures, and sparse distributions.

A candidate weighs exp(-distance / temperature), times the pointer weight if it is in P. So four
sums say everything about one target: over the candidates with its value and over all, each for
those in P (pointed) and for the others. No vector of the vocabulary's size is ever made.
"""

import math

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import LaneArrays
from retomaton_dist.automaton.tables import FREE, place_of, table_size
from retomaton_dist.compiled import Whole, compiled

# Axes of log-sums: [..., TARGET or ALL, POINTED or OTHER].
TARGET, ALL = 0, 1
POINTED, OTHER = 0, 1
# exp(-60) of the largest weight is lost in float64 even 10^9 times over.
_FAR = 60.0
_LEAST = math.exp(-_FAR)


@compiled
def _nearest(lanes: LaneArrays, lane: Whole, target: Whole, nearest: NDArray[np.float64]) -> None:
    nearest[:] = np.inf
    for i in range(lanes.counts[lane]):
        group = POINTED if lanes.pointed[lane, i] else OTHER
        distance = np.float64(lanes.distances[lane, i])
        nearest[ALL, group] = min(nearest[ALL, group], distance)
        if lanes.values[lane, i] == target:
            nearest[TARGET, group] = min(nearest[TARGET, group], distance)


@compiled
def _exponential(distance: float, nearest: float, temperature: float) -> float:
    exponent = (nearest - distance) / temperature
    return math.exp(exponent) if exponent > -_FAR else 0.0


@compiled
def _add_powers(
    sums: NDArray[np.float64],
    which: Whole,
    group: Whole,
    temperatures: NDArray[np.float64],
    behind: float,
) -> None:
    """Add exp(-behind / temperature) to the sums of every temperature, from the last to the first.

    Where a temperature is half of the one after it, its weight is that one's square: a grid of
    powers of two costs one exponential.
    """
    weight = 0.0
    for j in range(temperatures.shape[0] - 1, -1, -1):
        if j + 1 < temperatures.shape[0] and temperatures[j] * 2.0 == temperatures[j + 1]:
            weight *= weight
        else:
            weight = math.exp(-behind / temperatures[j])
        if weight < _LEAST:
            weight = 0.0
        sums[j, which, group] += weight


@compiled
def _add_up(
    lanes: LaneArrays,
    lane: Whole,
    target: Whole,
    temperatures: NDArray[np.float64],
    nearest: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    sums[:] = 0.0
    for i in range(lanes.counts[lane]):
        group = POINTED if lanes.pointed[lane, i] else OTHER
        distance = np.float64(lanes.distances[lane, i])
        if distance == np.inf:
            continue
        _add_powers(sums, ALL, group, temperatures, distance - nearest[ALL, group])
        if lanes.values[lane, i] == target:
            _add_powers(sums, TARGET, group, temperatures, distance - nearest[TARGET, group])
    for j in range(temperatures.shape[0]):
        for which in range(2):
            for group in range(2):
                total = sums[j, which, group]
                shift = nearest[which, group] / temperatures[j]
                sums[j, which, group] = math.log(total) - shift if total > 0 else -np.inf


@compiled
def log_sums(
    lanes: LaneArrays,
    chosen: NDArray[np.int64],
    targets: NDArray[np.int32],
    temperatures: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Fill out[i, j, TARGET or ALL, POINTED or OTHER] for chosen lane i and temperature j.

    It is log sum exp(-distance / temperature), and -infinity where there is no candidate.
    """
    nearest = np.empty((2, 2))
    for i in range(chosen.shape[0]):
        _nearest(lanes, chosen[i], targets[i], nearest)
        _add_up(lanes, chosen[i], targets[i], temperatures, nearest, out[i])


@compiled
def _gather(
    lanes: LaneArrays,
    lane: Whole,
    temperature: float,
    pointer_weight: float,
    tokens: NDArray[np.int32],
    weights: NDArray[np.float64],
    table: NDArray[np.int64],
    places: NDArray[np.int64],
) -> Whole:
    """Sum the weights of equal values; return how many values there are."""
    nearest = np.inf
    for i in range(lanes.counts[lane]):
        nearest = min(nearest, np.float64(lanes.distances[lane, i]))
    size = table_size(lanes.counts[lane])
    table[:size] = FREE
    count = 0
    for i in range(lanes.counts[lane]):
        distance = np.float64(lanes.distances[lane, i])
        if distance == np.inf:
            continue
        weight = _exponential(distance, nearest, temperature)
        weight *= pointer_weight if lanes.pointed[lane, i] else 1.0
        value = np.int64(np.uint32(lanes.values[lane, i]))
        place = place_of(table, size, value)
        if table[place] == FREE:
            table[place] = value
            places[place] = count
            tokens[count] = lanes.values[lane, i]
            weights[count] = 0.0
            count += 1
        weights[places[place]] += weight
    return count


@compiled
def distributions(
    lanes: LaneArrays,
    chosen: NDArray[np.int64],
    temperature: float,
    pointer_weight: float,
    tokens: NDArray[np.int32],
    probabilities: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Fill row i with the values among the candidates of chosen lane i and their p_auto."""
    size = table_size(lanes.slots.shape[1])
    table, places = np.empty(size, np.int64), np.empty(size, np.int64)
    for i in range(chosen.shape[0]):
        counts[i] = _gather(
            lanes,
            chosen[i],
            temperature,
            pointer_weight,
            tokens[i],
            probabilities[i],
            table,
            places,
        )
        total = probabilities[i, : counts[i]].sum()
        if total > 0:
            probabilities[i, : counts[i]] /= total
