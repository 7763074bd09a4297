"""F: where the members of S, and the last candidates, have the token w as their value."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Columns, LaneArrays
from retomaton_dist.automaton.filling import range_of
from retomaton_dist.compiled import Whole, compiled

TOGETHER = 64


@compiled
def find_scored(lanes: LaneArrays, lane: Whole, token: Whole, scored: NDArray[np.int64]) -> Whole:
    """List which of the last candidates have value `token`; return how many."""
    found = 0
    values = lanes.values[lane]
    for i in range(lanes.counts[lane]):
        scored[found] = i
        found += values[i] == token
    return found


@compiled
def _narrow(values: NDArray[np.int32], token: Whole, runs: NDArray[np.int64]) -> None:
    """Turn rows (first slot, length) into runs of `token` (first slot, one past the last).

    All rows take a step of their binary searches in turn, so that their cache misses overlap.
    """
    longest = runs[:, 1].max()
    while longest > 1:
        for i in range(runs.shape[0]):
            half = runs[i, 1] >> 1
            lower = half > 0 and values[runs[i, 0] + half - 1] < token
            runs[i, 0] += half if lower else 0
            runs[i, 1] -= half
        longest -= longest >> 1
    for i in range(runs.shape[0]):
        low, end = runs[i, 0], runs[i, 0] + runs[i, 1]
        low += low < end and values[low] < token
        runs[i, 0] = low


@compiled
def find_runs(columns: Columns, lanes: LaneArrays, lane: Whole, runs: NDArray[np.int64]) -> Whole:
    """Find the run of the lane's token in every state of S; return the length of all of them."""
    values, token = columns.values, lanes.tokens[lane]
    for i in range(runs.shape[0]):
        low, high = range_of(columns, np.int64(lanes.states[lane, i]))
        runs[i, 0], runs[i, 1] = low, max(high - low, 0)
    for first in range(0, runs.shape[0], TOGETHER):
        _narrow(values, token, runs[first : first + TOGETHER])
    total = 0
    for i in range(runs.shape[0]):
        _, end = range_of(columns, np.int64(lanes.states[lane, i]))
        high = runs[i, 0]
        while high < end and values[high] == token:
            high += 1
        runs[i, 1] = high
        total += high - runs[i, 0]
    return total
