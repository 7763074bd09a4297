"""The rest of W: members of the reached states, after the pointers, up to max_knns."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Columns, LaneArrays, Rules, Scratch
from retomaton_dist.automaton.tables import FREE, entry_hash, keep_lowest, place_of
from retomaton_dist.compiled import Whole, compiled

_LOW = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_SPAN = 4294967296.0


@compiled
def range_of(columns: Columns, state: Whole) -> tuple[Whole, Whole]:
    """Slots of a state's members: first, and one past the last."""
    low, high = np.int64(columns.offsets[state]), np.int64(columns.offsets[state + 1])
    return max(low, np.int64(0)), min(high, np.int64(columns.values.shape[0]))


@compiled
def _members(columns: Columns, lanes: LaneArrays, lane: Whole) -> Whole:
    total = np.int64(0)
    for i in range(lanes.reached_counts[lane]):
        low, high = range_of(columns, np.int64(lanes.reached[lane, i]))
        total += max(high - low, 0)
    return total


@compiled
def _add(lanes: LaneArrays, lane: Whole, slot: Whole, pointed: bool) -> None:
    count = lanes.walked_counts[lane]
    lanes.walked[lane, count] = slot
    lanes.walked_pointed[lane, count] = pointed
    lanes.walked_counts[lane] = count + 1


@compiled
def _add_others(
    columns: Columns, lanes: LaneArrays, lane: Whole, table: NDArray[np.int64], size: Whole
) -> None:
    """Add all members that are not pointers: there is room for them."""
    for i in range(lanes.reached_counts[lane]):
        low, high = range_of(columns, np.int64(lanes.reached[lane, i]))
        for slot in range(low, high):
            if table[place_of(table, size, slot)] == FREE:
                _add(lanes, lane, slot, False)


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

    When the room is full, only the `wanted` lowest stay and the limit falls to the last of them.
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
            if rank > limit or table[place_of(table, size, slot)] != FREE:
                continue
            if count == ranks.shape[0]:
                limit = keep_lowest(ranks, items, count, wanted, scratch.spare)
                count = wanted
            ranks[count] = rank
            items[count] = slot
            count += 1
    return count, limit


@compiled
def _first_limit(wanted: Whole, others: Whole) -> np.uint64:
    """A rank that a little more than `wanted` of so many members fall below, most likely."""
    share = (wanted + 4.0 * np.sqrt(float(wanted)) + 16.0) / others
    return _ALL if share >= 1.0 else np.uint64(share * _SPAN) << np.uint64(32)


@compiled
def fill_hashed(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    scratch: Scratch,
    lane: Whole,
    key: np.uint32,
    inside: Whole,
    table: NDArray[np.int64],
    size: Whole,
) -> bool:
    """Add the other members of S' by hash; return whether all found room.

    `table` holds P, of which `inside` are members of S'.
    """
    wanted = rules.max_knns - lanes.walked_counts[lane]
    others = _members(columns, lanes, lane) - inside
    if others <= wanted:
        _add_others(columns, lanes, lane, table, size)
        return True
    if not wanted:
        return False
    limit = _first_limit(wanted, others)
    count: Whole = 0
    while True:
        widest = limit == _ALL
        for i in range(lanes.reached_counts[lane]):
            low, high = range_of(columns, np.int64(lanes.reached[lane, i]))
            count, limit = _offer_hashed(
                columns, low, high, key, limit, wanted, count, scratch, table, size
            )
        if count >= wanted or widest:
            break
        count, limit = 0, _ALL
    if count > wanted:
        keep_lowest(scratch.ranks, scratch.items, count, wanted, scratch.spare)
    for i in range(min(count, wanted)):
        _add(lanes, lane, scratch.items[i], False)
    return False


@compiled
def _add_lowest(
    columns: Columns,
    lanes: LaneArrays,
    lane: Whole,
    low: Whole,
    high: Whole,
    wanted: Whole,
    scratch: Scratch,
    table: NDArray[np.int64],
    size: Whole,
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
        _add(lanes, lane, items[i], table[place_of(table, size, items[i])] != FREE)


@compiled
def fill_listed(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    scratch: Scratch,
    lane: Whole,
    table: NDArray[np.int64],
    size: Whole,
) -> bool:
    """Add the members of S', pointers or not: states with most pointers first, by entry.

    `table` holds P. Return whether all found room.
    """
    for i in range(lanes.reached_counts[lane]):
        wanted = rules.max_knns - lanes.walked_counts[lane]
        low, high = range_of(columns, np.int64(lanes.reached[lane, i]))
        if high - low > wanted:
            if wanted:
                _add_lowest(columns, lanes, lane, low, high, wanted, scratch, table, size)
            return False
        for slot in range(low, high):
            _add(lanes, lane, slot, table[place_of(table, size, slot)] != FREE)
    return True
