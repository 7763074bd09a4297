"""The first half of a step: from S, the last candidates and the token w to P, S', n and W.

    F  = members of S with value w                          find_runs
       | last candidates with value w                       find_scored
    P  = next(F) without -1, each once                      _find_pointers
    S' = states(P), at most max_states                      _reach_states
    n  = |S'| | number of last candidates with value w      _walk
    W  = P, then the other members of S'                    fill.fill

The lines are those of "One step" in docs/explanation/algorithm.md; what is left is `join`'s.
Every id that is read is checked, so that damaged columns yield less, never a crash.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import (
    STATES_CAPPED,
    Columns,
    LaneArrays,
    Rules,
    Scratch,
    StepRoom,
    next_of,
    range_of,
    room_for,
)
from retomaton_dist.automaton.fill import fill
from retomaton_dist.automaton.tables import FREE, partition, place_of
from retomaton_dist.compiled import Whole, compiled

# States whose binary searches take turns.
_TOGETHER = 64
_UNSCORED = np.float32(np.inf)
_MOST = np.uint64(0xFFFFFFFF)


@compiled
def follow(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    scratch: Scratch,
    chosen: NDArray[np.int64],
    tokens: NDArray[np.int32],
) -> None:
    """Take the chosen lanes along their tokens and say which of them must search."""
    for i in range(chosen.shape[0]):
        lane = chosen[i]
        lanes.tokens[lane] = tokens[i]
        _walk(columns, lanes, rules, scratch, lane)
        lanes.searching[lane] = lanes.found[lane] < lanes.taus[lane]


@compiled
def _walk(columns: Columns, lanes: LaneArrays, rules: Rules, scratch: Scratch, lane: Whole) -> None:
    """Fill P, S', n and W of one lane whose token is set."""
    scored = scratch.scored[: find_scored(lanes, lane, scratch.scored)]
    runs = scratch.runs[: lanes.state_counts[lane]]
    alike = scored.shape[0]
    total = find_runs(columns, lanes, lane, runs) if rules.follow_members else alike
    room = room_for(scratch, total)
    count = _find_pointers(columns, lanes, rules, lane, runs, scored, room)
    inside = _reach_states(columns, lanes, rules, lane, room, count)
    lanes.found[lane] = lanes.reached_counts[lane] if rules.count_states else alike
    fill(columns, lanes, rules, scratch, lane, room, count, inside)


# F


@compiled
def find_scored(lanes: LaneArrays, lane: Whole, scored: NDArray[np.int64]) -> Whole:
    """List which of the last candidates have the lane's token as value; return how many."""
    found = 0
    values, token = lanes.values[lane], lanes.tokens[lane]
    for i in range(lanes.counts[lane]):
        scored[found] = i
        found += values[i] == token
    return found


@compiled
def find_runs(columns: Columns, lanes: LaneArrays, lane: Whole, runs: NDArray[np.int64]) -> Whole:
    """Find the run of the lane's token in every state of S; return the length of all of them."""
    values, token = columns.values, lanes.tokens[lane]
    for i in range(runs.shape[0]):
        low, high = range_of(columns, np.int64(lanes.states[lane, i]))
        runs[i, 0], runs[i, 1] = low, max(high - low, 0)
    for first in range(0, runs.shape[0], _TOGETHER):
        _narrow(values, token, runs[first : first + _TOGETHER])
    total = 0
    for i in range(runs.shape[0]):
        _, end = range_of(columns, np.int64(lanes.states[lane, i]))
        high = runs[i, 0]
        while high < end and values[high] == token:
            high += 1
        runs[i, 1] = high
        total += high - runs[i, 0]
    return total


@compiled
def _narrow(values: NDArray[np.int32], token: Whole, runs: NDArray[np.int64]) -> None:
    """Turn rows (first slot, length) into runs of `token`, of which the first slot is found here.

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


# P


@compiled
def _find_pointers(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    lane: Whole,
    runs: NDArray[np.int64],
    scored: NDArray[np.int64],
    room: StepRoom,
) -> Whole:
    """Fill the room's pointers, their distances and their table; return how many there are.

    The lane keeps the first of them: what a search finds may be among them.
    """
    room.table[: room.size] = FREE
    if rules.follow_members:
        count = _of_members(columns, runs, room)
        room.nearest[:count] = _UNSCORED
        _note_scored(columns, lanes, lane, scored, room)
    else:
        count = _of_scored(columns, lanes, lane, scored, not rules.hashed, room)
    lanes.pointers[lane] = count
    for i in range(min(count, lanes.followed.shape[1])):
        lanes.followed[lane, i] = room.pointers[i]
    return count


@compiled
def _of_members(columns: Columns, runs: NDArray[np.int64], room: StepRoom) -> Whole:
    """List the pointers of all runs; return how many there are."""
    pointers, table = room.pointers, room.table
    total = 0
    for i in range(runs.shape[0]):
        for slot in range(runs[i, 0], runs[i, 1]):
            # Only read here: in a loop without branches cache misses overlap.
            pointers[total] = next_of(columns, slot)
            total += 1
    count = 0
    for i in range(total):
        pointer = pointers[i]
        if pointer < 0:
            continue
        place = place_of(table, room.size, pointer)
        if table[place] == FREE:
            table[place] = pointer
            room.places[place] = count
            pointers[count] = pointer
            count += 1
    return count


@compiled
def _note_scored(
    columns: Columns, lanes: LaneArrays, lane: Whole, scored: NDArray[np.int64], room: StepRoom
) -> None:
    """Give the pointers that were reached from scored candidates the distance of the nearest."""
    for i in scored:
        pointer = next_of(columns, lanes.slots[lane, i])
        if pointer >= 0:
            place = place_of(room.table, room.size, pointer)
            if room.table[place] != FREE:
                known = room.places[place]
                room.nearest[known] = min(room.nearest[known], lanes.distances[lane, i])


@compiled
def _of_scored(
    columns: Columns,
    lanes: LaneArrays,
    lane: Whole,
    scored: NDArray[np.int64],
    repeat: bool,
    room: StepRoom,
) -> Whole:
    """List the pointers of scored candidates, with repeats if asked; return how many there are."""
    nearest, table, places = room.nearest, room.table, room.places
    count = 0
    for i in scored:
        pointer = next_of(columns, lanes.slots[lane, i])
        if pointer < 0:
            continue
        place = place_of(table, room.size, pointer)
        known = table[place] != FREE
        if known and not repeat:
            nearest[places[place]] = min(nearest[places[place]], lanes.distances[lane, i])
            continue
        if not known:
            table[place] = pointer
            places[place] = count
        room.pointers[count] = pointer
        nearest[count] = lanes.distances[lane, i]
        count += 1
    return count


# S'


@compiled
def _reach_states(
    columns: Columns, lanes: LaneArrays, rules: Rules, lane: Whole, room: StepRoom, pointers: Whole
) -> Whole:
    """Give the lane its S', states with most pointers first; return how many lead into it."""
    states = _count_states(columns, room, pointers)
    kept, inside = _choose_states(room, states, rules.max_states, not rules.hashed)
    lanes.counters[lane, STATES_CAPPED] += kept < states
    for i in range(kept):
        lanes.reached[lane, i] = room.reached[i]
    lanes.reached_counts[lane] = kept
    return inside


@compiled
def _count_states(columns: Columns, room: StepRoom, pointers: Whole) -> Whole:
    """List the states of the pointers, and how many lead to each; return the number of states."""
    table, counts = room.state_table, room.counts
    states = 0
    table[: room.size] = FREE
    for i in range(pointers):
        # Read in a loop of its own, where cache misses overlap.
        counts[i] = np.int64(columns.states[room.pointers[i]])
    for i in range(pointers):
        state = counts[i]
        if state >= columns.offsets.shape[0] - 1:
            continue
        place = place_of(table, room.size, state)
        if table[place] == FREE:
            table[place] = state
            room.state_places[place] = states
            room.reached[states] = state
            counts[states] = 0
            states += 1
        counts[room.state_places[place]] += 1
    return states


@compiled
def _choose_states(
    room: StepRoom, states: Whole, most: Whole, ordered: bool
) -> tuple[Whole, Whole]:
    """Bring the states with most pointers to the front, lower ones first among equals.

    Return how many states are kept, and how many pointers lead to them.
    """
    reached, counts, ranks = room.reached, room.counts, room.ranks
    kept = min(states, most)
    if kept == states and not ordered:
        return kept, counts[:kept].sum()
    for i in range(states):
        fewer = _MOST - np.uint64(min(counts[i], np.int64(0xFFFFFFFF)))
        ranks[i] = (fewer << np.uint64(32)) | np.uint64(reached[i])
    partition(ranks[:states], kept)
    if ordered:
        ranks[:kept].sort()
    inside = np.int64(0)
    for i in range(kept):
        reached[i] = np.int64(ranks[i] & _MOST)
        inside += np.int64(_MOST - (ranks[i] >> np.uint64(32)))
    return kept, inside
