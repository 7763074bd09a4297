"""The first half of a step: from S and the token w to P, S', n and W.

    F  = members of S with value w, or last step's candidates with value w      (runs)
    P  = next(F), each once                                                     (pointing)
    S' = states(P); n = |S'| or the number of last candidates with value w      (reaching)
    W  = P, then other members of S', at most max_knns of them                  (filling)

Every id that is read is checked, so that damaged columns yield less, never a crash.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import (
    CANDIDATES_CAPPED,
    Columns,
    LaneArrays,
    Rules,
    Scratch,
)
from retomaton_dist.automaton.filling import fill_hashed, fill_listed
from retomaton_dist.automaton.pointing import choose_pointers, find_pointers
from retomaton_dist.automaton.reaching import reach_states
from retomaton_dist.automaton.room import Room, room_for
from retomaton_dist.automaton.runs import find_runs, find_scored
from retomaton_dist.automaton.tables import step_key, table_size
from retomaton_dist.compiled import Whole, compiled


@compiled
def _take_pointers(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    lane: Whole,
    room: Room,
    count: Whole,
    key: np.uint32,
) -> bool:
    """Begin W with P; return whether all of it found room."""
    lanes.pointers[lane] = count
    for i in range(min(count, lanes.followed.shape[1])):
        lanes.followed[lane, i] = room.pointers[i]
    first = min(count, rules.max_knns)
    if first < count:
        choose_pointers(columns, room, count, first, rules.hashed, key)
    for i in range(first):
        lanes.walked[lane, i] = room.pointers[i]
        lanes.walked_pointed[lane, i] = True
    lanes.walked_counts[lane] = first
    return first == count


@compiled
def _walk(columns: Columns, lanes: LaneArrays, rules: Rules, scratch: Scratch, lane: Whole) -> None:
    """Fill P, S' and W of one lane whose token is set."""
    alike = find_scored(lanes, lane, lanes.tokens[lane], scratch.scored)
    runs = scratch.runs[: lanes.state_counts[lane]]
    total = find_runs(columns, lanes, lane, runs) if rules.follow_members else alike
    room = room_for(scratch, total, table_size(total))
    count = find_pointers(columns, lanes, rules, lane, runs, scratch.scored[:alike], room)
    inside = reach_states(columns, lanes, rules, lane, room, count)
    lanes.found[lane] = lanes.reached_counts[lane] if rules.count_states else alike
    key = step_key(rules.seed, lanes.documents[lane], lanes.steps[lane])
    whole = _take_pointers(columns, lanes, rules, lane, room, count, key)
    if rules.hashed:
        filled = fill_hashed(
            columns, lanes, rules, scratch, lane, key, inside, room.table, room.size
        )
    else:
        filled = fill_listed(columns, lanes, rules, scratch, lane, room.table, room.size)
    lanes.counters[lane, CANDIDATES_CAPPED] += not (whole and filled)


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
