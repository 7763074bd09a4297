"""W = P, then the other members of S'; the first max_knns of that.

`hashed` (the paper's walk): pointers once, then the other members in the order of their hashes.
`listed` (the authors' code): pointers, then all members, states with most pointers first, by entry;
where no state has more than one member (their "without clustering"), pointers alone.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import (
    Columns,
    LaneArrays,
    Rules,
    Scratch,
    StepRoom,
    range_of,
)
from retomaton_dist.automaton.tables import (
    entry_hash,
    holds,
    keep_lowest,
    rank_of,
    step_key,
)
from retomaton_dist.compiled import Whole, compiled

_LOW = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_SPAN = 4294967296.0


@compiled
def fill(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    scratch: Scratch,
    lane: Whole,
    room: StepRoom,
    pointers: Whole,
    inside: Whole,
) -> None:
    """Give the lane its W. The room holds so many pointers, of which `inside` lead into S'."""
    key = step_key(rules.seed, lanes.documents[lane], lanes.steps[lane])
    whole = _take_pointers(columns, lanes, rules, lane, room, pointers, key)
    if rules.hashed:
        filled = _fill_hashed(columns, lanes, rules, scratch, lane, room, inside, key)
    elif rules.alone:
        filled = True
    else:
        filled = _fill_listed(columns, lanes, rules, scratch, lane, room)
    lanes.capped[lane] = not (whole and filled)


@compiled
def _add(lanes: LaneArrays, lane: Whole, slot: Whole, pointed: bool) -> None:
    count = lanes.walked_counts[lane]
    lanes.walked[lane, count] = slot
    lanes.walked_pointed[lane, count] = pointed
    lanes.walked_counts[lane] = count + 1


# P


@compiled
def _take_pointers(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    lane: Whole,
    room: StepRoom,
    count: Whole,
    key: np.uint32,
) -> bool:
    """Begin W with P; return whether all of it found room."""
    first = min(count, rules.max_knns)
    if first < count:
        _choose_pointers(columns, room, count, first, rules.hashed, key)
    for i in range(first):
        lanes.walked[lane, i] = room.pointers[i]
        lanes.walked_pointed[lane, i] = True
    lanes.walked_counts[lane] = first
    return first == count


@compiled
def _choose_pointers(
    columns: Columns, room: StepRoom, count: Whole, most: Whole, hashed: bool, key: np.uint32
) -> None:
    """Bring the first `most` pointers to the front: nearest first, then by hash or by entry."""
    for i in range(count):
        entry = np.int64(columns.entries[room.pointers[i]])
        within = entry_hash(entry, key) if hashed else np.uint32(entry)
        room.ranks[i] = rank_of(room.nearest[i], within)
    keep_lowest(room.ranks, room.pointers, count, most, room.spare)


# The other members of S', hashed


@compiled
def _fill_hashed(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    scratch: Scratch,
    lane: Whole,
    room: StepRoom,
    inside: Whole,
    key: np.uint32,
) -> bool:
    """Add the members of S' that are not pointers, by hash; return whether all found room."""
    wanted = rules.max_knns - lanes.walked_counts[lane]
    others = members_of(columns, lanes.reached[lane, : lanes.reached_counts[lane]]) - inside
    if others <= wanted:
        _add_others(columns, lanes, lane, room)
        return True
    if not wanted:
        return False
    states = lanes.reached[lane, : lanes.reached_counts[lane]]
    count = choose_hashed(columns, states, key, wanted, others, scratch, room.table, room.size)
    for i in range(count):
        _add(lanes, lane, scratch.items[i], False)
    return False


@compiled
def choose_hashed(
    columns: Columns,
    states: NDArray[np.uint32],
    key: np.uint32,
    wanted: Whole,
    others: Whole,
    scratch: Scratch,
    table: NDArray[np.int64],
    size: Whole,
) -> Whole:
    """Bring the `wanted` members that hash lowest, and that the table does not hold, to `items`.

    So many members are to choose from, about. Return how many there are.
    """
    limit = _first_limit(wanted, others)
    count: Whole = 0
    while True:
        widest = limit == _ALL
        for i in range(states.shape[0]):
            low, high = range_of(columns, np.int64(states[i]))
            count, limit = _offer_hashed(
                columns, low, high, key, limit, wanted, count, scratch, table, size
            )
        if count >= wanted or widest:
            break
        count, limit = 0, _ALL
    if count > wanted:
        keep_lowest(scratch.ranks, scratch.items, count, wanted, scratch.spare)
    return min(count, wanted)


@compiled
def members_of(columns: Columns, states: NDArray[np.uint32]) -> Whole:
    """How many members these states have."""
    total = np.int64(0)
    for i in range(states.shape[0]):
        low, high = range_of(columns, np.int64(states[i]))
        total += max(high - low, 0)
    return total


@compiled
def _add_others(columns: Columns, lanes: LaneArrays, lane: Whole, room: StepRoom) -> None:
    """Add all members that are not pointers: there is room for them."""
    for i in range(lanes.reached_counts[lane]):
        low, high = range_of(columns, np.int64(lanes.reached[lane, i]))
        for slot in range(low, high):
            if not holds(room.table, room.size, slot):
                _add(lanes, lane, slot, False)


@compiled
def _first_limit(wanted: Whole, others: Whole) -> np.uint64:
    """A rank that a little more than `wanted` of so many members fall below, most likely."""
    share = (wanted + 4.0 * np.sqrt(float(wanted)) + 16.0) / others
    return _ALL if share >= 1.0 else np.uint64(share * _SPAN) << np.uint64(32)


@compiled
def _offer_hashed(
    columns: Columns,
    low: Whole,
    high: Whole,
    key: np.uint32,
    limit: np.uint64,
    wanted: Whole,
    count: Whole,
    scratch: Scratch,
    table: NDArray[np.int64],
    size: Whole,
) -> tuple[Whole, np.uint64]:
    """Offer a state's members of rank up to `limit`; return how many are held, and the limit.

    The table holds P, which is not offered. (It is passed without its room: for every state, that
    would count references to all arrays of the room.)
    When the scratch is full, only the `wanted` lowest stay and the limit falls to the last of them.
    """
    hashes, offered, ranks, items = scratch.hashes, scratch.offered, scratch.ranks, scratch.items
    entries = columns.entries
    for start in range(low, high, hashes.shape[0]):
        stop = min(start + hashes.shape[0], high)
        for i in range(stop - start):
            hashes[i] = entry_hash(entries[start + i], key)
        below = np.uint32(limit >> np.uint64(32))
        found = 0
        for i in range(stop - start):
            offered[found] = i
            found += hashes[i] <= below
        for j in range(found):
            slot = start + offered[j]
            rank = (np.uint64(hashes[offered[j]]) << np.uint64(32)) | (
                np.uint64(entries[slot]) & _LOW
            )
            if rank > limit or holds(table, size, slot):
                continue
            if count == ranks.shape[0]:
                limit = keep_lowest(ranks, items, count, wanted, scratch.spare)
                count = wanted
            ranks[count] = rank
            items[count] = slot
            count += 1
    return count, limit


# All members of S', listed


@compiled
def _fill_listed(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    scratch: Scratch,
    lane: Whole,
    room: StepRoom,
) -> bool:
    """Add the members of S', pointers or not; return whether all found room."""
    for i in range(lanes.reached_counts[lane]):
        wanted = rules.max_knns - lanes.walked_counts[lane]
        low, high = range_of(columns, np.int64(lanes.reached[lane, i]))
        if high - low > wanted:
            if wanted:
                _add_lowest(columns, lanes, lane, low, high, wanted, scratch, room)
            return False
        for slot in range(low, high):
            _add(lanes, lane, slot, holds(room.table, room.size, slot))
    return True


@compiled
def _add_lowest(
    columns: Columns,
    lanes: LaneArrays,
    lane: Whole,
    low: Whole,
    high: Whole,
    wanted: Whole,
    scratch: Scratch,
    room: StepRoom,
) -> None:
    """Add the `wanted` lowest entries of a state."""
    ranks, items = scratch.ranks, scratch.items
    count: Whole = 0
    limit = _ALL
    for slot in range(low, high):
        rank = np.uint64(columns.entries[slot])
        if rank > limit:
            continue
        if count == ranks.shape[0]:
            limit = keep_lowest(ranks, items, count, wanted, scratch.spare)
            count = wanted
        ranks[count] = rank
        items[count] = slot
        count += 1
    keep_lowest(ranks, items, count, wanted, scratch.spare)
    for i in range(wanted):
        _add(lanes, lane, items[i], holds(room.table, room.size, items[i]))
