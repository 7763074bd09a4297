"""S' = states(P): the states that a step reaches, those with most pointers first."""

import numpy as np

from retomaton_dist.automaton.arrays import STATES_CAPPED, Columns, LaneArrays, Rules
from retomaton_dist.automaton.room import Room
from retomaton_dist.automaton.tables import FREE, partition, place_of
from retomaton_dist.compiled import Whole, compiled

_MOST = np.uint64(0xFFFFFFFF)


@compiled
def _count_states(columns: Columns, room: Room, pointers: Whole) -> Whole:
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
def _choose_states(room: Room, states: Whole, most: Whole, ordered: bool) -> tuple[Whole, Whole]:
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


@compiled
def reach_states(
    columns: Columns, lanes: LaneArrays, rules: Rules, lane: Whole, room: Room, pointers: Whole
) -> Whole:
    """Give the lane its S'; return how many of the pointers lead into it."""
    states = _count_states(columns, room, pointers)
    kept, inside = _choose_states(room, states, rules.max_states, not rules.hashed)
    lanes.counters[lane, STATES_CAPPED] += kept < states
    for i in range(kept):
        lanes.reached[lane, i] = room.reached[i]
    lanes.reached_counts[lane] = kept
    return inside
