"""P = next(F): the pointers that a step follows, each once, and which of them come first."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Columns, LaneArrays, Rules
from retomaton_dist.automaton.room import Room
from retomaton_dist.automaton.tables import FREE, entry_hash, keep_lowest, place_of, rank_of
from retomaton_dist.compiled import Whole, compiled

_UNSCORED = np.float32(np.inf)


@compiled
def _next(columns: Columns, slot: Whole) -> Whole:
    following = np.int64(columns.nexts[slot])
    return following if 0 <= following < columns.values.shape[0] else -1


@compiled
def _of_members(columns: Columns, runs: NDArray[np.int64], room: Room) -> Whole:
    """List the pointers of all runs; return how many there are."""
    pointers, table = room.pointers, room.table
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
        place = place_of(table, room.size, pointer)
        if table[place] == FREE:
            table[place] = pointer
            room.places[place] = count
            pointers[count] = pointer
            count += 1
    return count


@compiled
def _note_scored(
    columns: Columns, lanes: LaneArrays, lane: Whole, scored: NDArray[np.int64], room: Room
) -> None:
    """Give the pointers that were reached from scored candidates the distance of the nearest."""
    for i in scored:
        pointer = _next(columns, lanes.slots[lane, i])
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
    room: Room,
) -> Whole:
    """List the pointers of scored candidates, with repeats if asked; return how many there are."""
    nearest, table, places = room.nearest, room.table, room.places
    count = 0
    for i in scored:
        pointer = _next(columns, lanes.slots[lane, i])
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


@compiled
def find_pointers(
    columns: Columns,
    lanes: LaneArrays,
    rules: Rules,
    lane: Whole,
    runs: NDArray[np.int64],
    scored: NDArray[np.int64],
    room: Room,
) -> Whole:
    """Fill the room's pointers, their distances and their table; return how many there are."""
    room.table[: room.size] = FREE
    if not rules.follow_members:
        return _of_scored(columns, lanes, lane, scored, not rules.hashed, room)
    count = _of_members(columns, runs, room)
    room.nearest[:count] = _UNSCORED
    _note_scored(columns, lanes, lane, scored, room)
    return count


@compiled
def choose_pointers(
    columns: Columns, room: Room, count: Whole, most: Whole, hashed: bool, key: np.uint32
) -> None:
    """Bring the first `most` pointers to the front: nearest first, then by hash or by entry."""
    for i in range(count):
        entry = np.int64(columns.entries[room.pointers[i]])
        within = entry_hash(entry, key) if hashed else np.uint32(entry)
        room.ranks[i] = rank_of(room.nearest[i], within)
    keep_lowest(room.ranks, room.pointers, count, most, room.spare)
