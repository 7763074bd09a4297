"""The second half of a step: from N, which a search found, and W to the candidates and S.

    candidates = N ++ W                 _list_neighbours, _list_walked
    S  = S' united with states(N)       _unite_states
    ... ++ other members of states(N)   _add_members, if whole states are scored

The lines are those of "One step" in docs/explanation/algorithm.md; N is given, W and S' are
`follow`'s.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import (
    CANDIDATES_CAPPED,
    EMPTY,
    Columns,
    LaneArrays,
    Rules,
    Scratch,
    next_of,
    range_of,
)
from retomaton_dist.automaton.fill import choose_hashed, members_of
from retomaton_dist.automaton.follow import find_runs, find_scored
from retomaton_dist.automaton.tables import FREE, holds, place_of, step_key, table_size
from retomaton_dist.compiled import Whole, compiled


@compiled
def join(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    scratch: Scratch,
    chosen: NDArray[np.int64],
    rows: NDArray[np.int64],
    slots: NDArray[np.int64],
    values: NDArray[np.int32],
    distances: NDArray[np.float32],
) -> None:
    """Give the chosen lanes their candidates; the distances of W are left to be measured.

    Lanes that search take row `rows[i]` of what was found.
    """
    for i in range(chosen.shape[0]):
        lane = chosen[i]
        size = table_size(slots.shape[1] + lanes.walked_counts[lane])
        scratch.table[:size] = FREE
        lanes.searched[lane] = 0
        if lanes.searching[lane]:
            found = slots[rows[i]]
            _mark_pointed(columns, lanes, rules, lane, found, scratch, size)
            _list_neighbours(
                lanes,
                lane,
                found,
                values[rows[i]],
                distances[rows[i]],
                scratch,
                size,
                rules.keep_duplicates,
            )
        _list_walked(columns, lanes, rules, lane, scratch, size)
        _unite_states(columns, lanes, lane, scratch)
        if rules.whole_states and lanes.searched[lane]:
            _add_members(columns, lanes, rules, lane, scratch, size)
        lanes.counters[lane, EMPTY] += lanes.counts[lane] == 0
        lanes.counters[lane, CANDIDATES_CAPPED] += lanes.capped[lane]
        lanes.steps[lane] += 1


@compiled
def _mark_pointed(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    lane: Whole,
    neighbours: NDArray[np.int64],
    scratch: Scratch,
    size: Whole,
) -> None:
    """Put the neighbours into the table and note in `items` which of them are in P.

    Where P was too large to be kept, the pointers are followed once more.
    """
    scratch.items[: neighbours.shape[0]] = 0
    for i in range(neighbours.shape[0]):
        place = place_of(scratch.table, size, neighbours[i])
        if neighbours[i] >= 0 and scratch.table[place] == FREE:
            scratch.table[place] = neighbours[i]
            scratch.places[place] = i
    if lanes.pointers[lane] <= lanes.followed.shape[1]:
        for i in range(lanes.pointers[lane]):
            _mark(lanes.followed[lane, i], scratch, size)
    elif rules.follow_members:
        runs = scratch.runs[: lanes.state_counts[lane]]
        find_runs(columns, lanes, lane, runs)
        for i in range(runs.shape[0]):
            for slot in range(runs[i, 0], runs[i, 1]):
                _mark(next_of(columns, slot), scratch, size)
    else:
        for i in scratch.scored[: find_scored(lanes, lane, scratch.scored)]:
            _mark(next_of(columns, lanes.slots[lane, i]), scratch, size)


@compiled
def _mark(slot: Whole, scratch: Scratch, size: Whole) -> None:
    if slot < 0:
        return
    place = place_of(scratch.table, size, slot)
    if scratch.table[place] != FREE:
        scratch.items[scratch.places[place]] = 1


@compiled
def _list_neighbours(
    lanes: LaneArrays,
    lane: Whole,
    slots: NDArray[np.int64],
    values: NDArray[np.int32],
    distances: NDArray[np.float32],
    scratch: Scratch,
    size: Whole,
    keep_duplicates: bool,
) -> None:
    """Put what a search found (-1 is nothing) first among the candidates."""
    count = 0
    for i in range(slots.shape[0]):
        if slots[i] < 0:
            continue
        first = scratch.places[place_of(scratch.table, size, slots[i])]
        if first != i and not keep_duplicates:
            continue
        lanes.slots[lane, count] = slots[i]
        lanes.values[lane, count] = values[i]
        lanes.distances[lane, count] = distances[i]
        lanes.pointed[lane, count] = scratch.items[first] == 1
        count += 1
    lanes.searched[lane] = count


@compiled
def _list_walked(
    columns: Columns, lanes: LaneArrays, rules: Rules, lane: Whole, scratch: Scratch, size: Whole
) -> None:
    """Put W behind the neighbours; what the table knows already is left out if repeats are."""
    count = lanes.searched[lane]
    for i in range(lanes.walked_counts[lane]):
        slot = lanes.walked[lane, i]
        if not rules.keep_duplicates:
            place = place_of(scratch.table, size, slot)
            if scratch.table[place] != FREE:
                continue
            scratch.table[place] = slot
        lanes.slots[lane, count] = slot
        lanes.values[lane, count] = columns.values[slot]
        lanes.pointed[lane, count] = lanes.walked_pointed[lane, i]
        count += 1
    lanes.counts[lane] = count


@compiled
def _unite_states(columns: Columns, lanes: LaneArrays, lane: Whole, scratch: Scratch) -> None:
    """Make S of S' and the states of the neighbours."""
    count = lanes.reached_counts[lane]
    lanes.states[lane, :count] = lanes.reached[lane, :count]
    if lanes.searched[lane]:
        table = scratch.state_table
        size = table_size(count + lanes.searched[lane])
        table[:size] = FREE
        for i in range(count):
            state = np.int64(lanes.reached[lane, i])
            table[place_of(table, size, state)] = state
        for i in range(lanes.searched[lane]):
            state = np.int64(columns.states[lanes.slots[lane, i]])
            place = place_of(table, size, state)
            if table[place] == FREE and state < columns.offsets.shape[0] - 1:
                table[place] = state
                lanes.states[lane, count] = state
                count += 1
    lanes.state_counts[lane] = count


@compiled
def _add_members(
    columns: Columns, lanes: LaneArrays, rules: Rules, lane: Whole, scratch: Scratch, size: Whole
) -> None:
    """Add the members of the states that neighbours alone led to; by hash, if not all fit.

    The table holds the neighbours, which are candidates already.
    """
    key = step_key(rules.seed, lanes.documents[lane], lanes.steps[lane])
    states = lanes.states[lane, lanes.reached_counts[lane] : lanes.state_counts[lane]]
    wanted = rules.max_knns - lanes.walked_counts[lane]
    total, first = members_of(columns, states), lanes.counts[lane]
    found: Whole = 0
    if wanted and total:
        found = choose_hashed(columns, states, key, wanted, total, scratch, scratch.table, size)
    for i in range(found):
        lanes.slots[lane, first + i] = scratch.items[i]
        lanes.values[lane, first + i] = columns.values[scratch.items[i]]
        lanes.pointed[lane, first + i] = False
    lanes.counts[lane] = first + found
    if found == wanted and total - _held(columns, states, scratch, size) > wanted:
        lanes.capped[lane] = True


@compiled
def _held(columns: Columns, states: NDArray[np.uint32], scratch: Scratch, size: Whole) -> Whole:
    """How many members of these states the table holds."""
    found = 0
    for i in range(states.shape[0]):
        low, high = range_of(columns, np.int64(states[i]))
        for slot in range(low, high):
            found += holds(scratch.table, size, slot)
    return found
