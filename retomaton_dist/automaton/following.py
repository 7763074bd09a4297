"""The first half of a step: from S and the token w to P, S', n and W.

    F  = members of S with value w, or last step's candidates with value w
    P  = next(F), each once; S' = states(P); n = |S'| or the number of last candidates with value w
    W  = P, then other members of S', at most max_knns of them

Every id that is read is checked, so that damaged columns yield less, never a crash.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import (
    CANDIDATES_CAPPED,
    STATES_CAPPED,
    Columns,
    LaneArrays,
    Rules,
    Scratch,
)
from retomaton_dist.automaton.filling import fill_hashed, fill_listed, range_of
from retomaton_dist.automaton.tables import (
    FREE,
    entry_hash,
    keep_lowest,
    partition,
    place_of,
    rank_of,
    step_key,
    table_size,
)
from retomaton_dist.compiled import Whole, compiled

TOGETHER = 64
_UNSCORED = np.float32(np.inf)
_MOST = np.uint64(0xFFFFFFFF)


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


@compiled
def _next(columns: Columns, slot: Whole) -> Whole:
    following = np.int64(columns.nexts[slot])
    return following if 0 <= following < columns.values.shape[0] else -1


@compiled
def _pointers_of_members(
    columns: Columns,
    runs: NDArray[np.int64],
    size: Whole,
    pointers: NDArray[np.int64],
    table: NDArray[np.int64],
    places: NDArray[np.int64],
) -> Whole:
    total = 0
    for i in range(runs.shape[0]):
        for slot in range(runs[i, 0], runs[i, 1]):
            # Only read here: in a loop without branches cache misses overlap.
            pointers[total] = _next(columns, slot)
            total += 1
    count = 0
    for i in range(total):
        pointer = pointers[i]
        if pointer < 0:
            continue
        place = place_of(table, size, pointer)
        if table[place] == FREE:
            table[place] = pointer
            places[place] = count
            pointers[count] = pointer
            count += 1
    return count


@compiled
def _pointers_of_scored(
    columns: Columns,
    lanes: LaneArrays,
    lane: Whole,
    scored: NDArray[np.int64],
    size: Whole,
    repeat: bool,
    pointers: NDArray[np.int64],
    nearest: NDArray[np.float32],
    table: NDArray[np.int64],
    places: NDArray[np.int64],
) -> Whole:
    count = 0
    for i in scored:
        pointer = _next(columns, lanes.slots[lane, i])
        if pointer < 0:
            continue
        place = place_of(table, size, pointer)
        known = table[place] != FREE
        if known and not repeat:
            nearest[places[place]] = min(nearest[places[place]], lanes.distances[lane, i])
            continue
        if not known:
            table[place] = pointer
            places[place] = count
        pointers[count] = pointer
        nearest[count] = lanes.distances[lane, i]
        count += 1
    return count


@compiled
def _note_scored(
    columns: Columns,
    lanes: LaneArrays,
    lane: Whole,
    scored: NDArray[np.int64],
    size: Whole,
    nearest: NDArray[np.float32],
    table: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Give the pointers that were reached from scored candidates the distance of the nearest."""
    for i in scored:
        pointer = _next(columns, lanes.slots[lane, i])
        if pointer >= 0:
            place = place_of(table, size, pointer)
            if table[place] != FREE:
                known = places[place]
                nearest[known] = min(nearest[known], lanes.distances[lane, i])


@compiled
def _count_states(
    columns: Columns,
    pointers: NDArray[np.int64],
    size: Whole,
    table: NDArray[np.int64],
    places: NDArray[np.int64],
    reached: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> Whole:
    """States of the pointers, and how many pointers lead to each; return the number of states."""
    states = 0
    table[:size] = FREE
    for i in range(pointers.shape[0]):
        # Read in a loop of its own, where cache misses overlap.
        counts[i] = np.int64(columns.states[pointers[i]])
    for i in range(pointers.shape[0]):
        state = counts[i]
        if state >= columns.offsets.shape[0] - 1:
            continue
        place = place_of(table, size, state)
        if table[place] == FREE:
            table[place] = state
            places[place] = states
            reached[states] = state
            counts[states] = 0
            states += 1
        counts[places[place]] += 1
    return states


@compiled
def _choose_states(
    reached: NDArray[np.int64],
    counts: NDArray[np.int64],
    most: Whole,
    ordered: bool,
    ranks: NDArray[np.uint64],
) -> tuple[Whole, Whole]:
    """Bring the states with most pointers to the front, lower ones first among equals.

    Return how many states are kept, and how many pointers lead to them.
    """
    kept = min(reached.shape[0], most)
    if kept == reached.shape[0] and not ordered:
        return kept, counts[:kept].sum()
    for i in range(reached.shape[0]):
        fewer = _MOST - np.uint64(min(counts[i], np.int64(0xFFFFFFFF)))
        ranks[i] = (fewer << np.uint64(32)) | np.uint64(reached[i])
    partition(ranks[: reached.shape[0]], kept)
    if ordered:
        ranks[:kept].sort()
    inside = np.int64(0)
    for i in range(kept):
        reached[i] = np.int64(ranks[i] & _MOST)
        inside += np.int64(_MOST - (ranks[i] >> np.uint64(32)))
    return kept, inside


@compiled
def _choose_pointers(
    columns: Columns,
    pointers: NDArray[np.int64],
    nearest: NDArray[np.float32],
    most: Whole,
    hashed: bool,
    key: np.uint32,
    ranks: NDArray[np.uint64],
    spare: NDArray[np.uint64],
) -> None:
    """Bring the first `most` pointers to the front: nearest first, then by hash or by entry."""
    for i in range(pointers.shape[0]):
        entry = np.int64(columns.entries[pointers[i]])
        within = entry_hash(entry, key) if hashed else np.uint32(entry)
        ranks[i] = rank_of(nearest[i], within)
    keep_lowest(ranks, pointers, pointers.shape[0], most, spare)


@compiled
def _walk(columns: Columns, lanes: LaneArrays, rules: Rules, scratch: Scratch, lane: Whole) -> None:
    """Fill P, S' and W of one lane whose token is set."""
    alike = find_scored(lanes, lane, lanes.tokens[lane], scratch.scored)
    scored = scratch.scored[:alike]
    runs = scratch.runs[: lanes.state_counts[lane]]
    total = find_runs(columns, lanes, lane, runs) if rules.follow_members else alike
    pointers, nearest, table, places = (
        scratch.pointers,
        scratch.nearest,
        scratch.table,
        scratch.places,
    )
    reached, counts = scratch.reached, scratch.counts
    state_table, state_places = scratch.state_table, scratch.state_places
    ranks, spare = scratch.ranks, scratch.spare
    size = table_size(total)
    if total > pointers.shape[0]:
        pointers, nearest = np.empty(total, np.int64), np.empty(total, np.float32)
        table, places = np.empty(size, np.int64), np.empty(size, np.int64)
        state_table, state_places = np.empty(size, np.int64), np.empty(size, np.int64)
        reached, counts = np.empty(total, np.int64), np.empty(total, np.int64)
        ranks, spare = np.empty(total, np.uint64), np.empty(total, np.uint64)
    table[:size] = FREE
    if rules.follow_members:
        count = _pointers_of_members(columns, runs, size, pointers, table, places)
        nearest[:count] = _UNSCORED
        _note_scored(columns, lanes, lane, scored, size, nearest, table, places)
    else:
        count = _pointers_of_scored(
            columns, lanes, lane, scored, size, not rules.hashed, pointers, nearest, table, places
        )
    pointers = pointers[:count]
    states = _count_states(columns, pointers, size, state_table, state_places, reached, counts)
    kept, inside = _choose_states(
        reached[:states], counts, rules.max_states, not rules.hashed, ranks
    )
    lanes.counters[lane, STATES_CAPPED] += kept < states
    for i in range(kept):
        lanes.reached[lane, i] = reached[i]
    lanes.reached_counts[lane] = kept
    lanes.pointers[lane] = count
    lanes.found[lane] = kept if rules.count_states else alike
    key = step_key(rules.seed, lanes.documents[lane], lanes.steps[lane])
    for i in range(min(count, lanes.followed.shape[1])):
        lanes.followed[lane, i] = pointers[i]
    first = min(count, rules.max_knns)
    if first < count:
        _choose_pointers(columns, pointers, nearest, first, rules.hashed, key, ranks, spare)
    for i in range(first):
        lanes.walked[lane, i] = pointers[i]
        lanes.walked_pointed[lane, i] = True
    lanes.walked_counts[lane] = first
    if rules.hashed:
        whole = fill_hashed(columns, lanes, rules, scratch, lane, key, inside, table, size)
    else:
        whole = fill_listed(columns, lanes, rules, scratch, lane, table, size)
    lanes.counters[lane, CANDIDATES_CAPPED] += first < count or not whole


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
