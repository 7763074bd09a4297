"""The arrays that kernels work on, in groups. Slots and entries are int64 while they are walked.

`Columns` are the automaton's, `Rules` the settings', `LaneArrays` what lanes remember from call to
call, `Scratch` and `StepRoom` what a thread needs while it takes a step.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.tables import table_size
from retomaton_dist.compiled import Whole, compiled

Ids = NDArray[Any]
"""Ids as they are stored: uint32 while N < 2^32 - 1, else int64; what lies outside is no id."""

# Columns of `LaneArrays.counters`.
STATES_CAPPED, CANDIDATES_CAPPED, EMPTY = range(3)
# Pointers that a step follows without taking further room.
POINTERS = 4096


class Columns(NamedTuple):
    """The automaton in slot order; `offsets` is by state, `slots` by entry."""

    offsets: Ids
    values: NDArray[np.int32]
    nexts: Ids
    states: NDArray[np.uint32]
    entries: Ids
    slots: Ids


@compiled
def range_of(columns: Columns, state: Whole) -> tuple[Whole, Whole]:
    """Slots of a state's members: first, and one past the last."""
    low, high = np.int64(columns.offsets[state]), np.int64(columns.offsets[state + 1])
    return max(low, np.int64(0)), min(high, np.int64(columns.values.shape[0]))


@compiled
def next_of(columns: Columns, slot: Whole) -> Whole:
    """The slot that a slot points to, or -1."""
    following = np.int64(columns.nexts[slot])
    return following if 0 <= following < columns.values.shape[0] else -1


class Rules(NamedTuple):
    """The settings of a walk as kernels take them.

    `alone`: no state has more than one member. `whole_states`: a restart adds all members of the
    states that its neighbours are in.
    """

    seed: int
    max_knns: int
    max_states: int
    follow_members: bool
    count_states: bool
    keep_duplicates: bool
    hashed: bool
    alone: bool
    whole_states: bool


class LaneArrays(NamedTuple):
    """What lanes remember: a row per lane, the filled length of a row beside it.

    `states` is S and `reached` is S'. `walked` is W, `walked_pointed` says which of it is in P,
    and `pointers` counts P, whose beginning is `followed`. `capped` says whether some of what was
    to be a candidate found no room. `slots`, `values`, `distances` and
    `pointed` are the candidates, of which the first `searched` came from a search. `found` is n
    and `tokens` is w.
    """

    documents: NDArray[np.int64]
    steps: NDArray[np.int64]
    taus: NDArray[np.float64]
    tokens: NDArray[np.int32]
    found: NDArray[np.int64]
    searching: NDArray[np.bool_]
    states: NDArray[np.uint32]
    state_counts: NDArray[np.int64]
    reached: NDArray[np.uint32]
    reached_counts: NDArray[np.int64]
    pointers: NDArray[np.int64]
    followed: NDArray[np.int64]
    walked: NDArray[np.int64]
    walked_pointed: NDArray[np.bool_]
    walked_counts: NDArray[np.int64]
    capped: NDArray[np.bool_]
    slots: NDArray[np.int64]
    values: NDArray[np.int32]
    distances: NDArray[np.float32]
    pointed: NDArray[np.bool_]
    searched: NDArray[np.int64]
    counts: NDArray[np.int64]
    counters: NDArray[np.int64]


def make_lanes(lanes: int, k: int, max_knns: int, reached: int) -> LaneArrays:
    """Lanes before their first step; `reached` is the most states that S' can have."""
    room = k + max_knns
    return LaneArrays(
        documents=np.zeros(lanes, np.int64),
        steps=np.zeros(lanes, np.int64),
        taus=np.ones(lanes),
        tokens=np.zeros(lanes, np.int32),
        found=np.zeros(lanes, np.int64),
        searching=np.zeros(lanes, np.bool_),
        states=np.empty((lanes, reached + k), np.uint32),
        state_counts=np.zeros(lanes, np.int64),
        reached=np.empty((lanes, reached), np.uint32),
        reached_counts=np.zeros(lanes, np.int64),
        pointers=np.zeros(lanes, np.int64),
        followed=np.empty((lanes, min(4 * max_knns, POINTERS)), np.int64),
        walked=np.empty((lanes, max_knns), np.int64),
        walked_pointed=np.empty((lanes, max_knns), np.bool_),
        walked_counts=np.zeros(lanes, np.int64),
        capped=np.zeros(lanes, np.bool_),
        slots=np.empty((lanes, room), np.int64),
        values=np.empty((lanes, room), np.int32),
        distances=np.empty((lanes, room), np.float32),
        pointed=np.empty((lanes, room), np.bool_),
        searched=np.zeros(lanes, np.int64),
        counts=np.zeros(lanes, np.int64),
        counters=np.zeros((lanes, 3), np.int64),
    )


class Scratch(NamedTuple):
    """Room for one thread's working sets. `runs` holds a row per state of S.

    Sets of pointers that do not fit get room of their own for the step: it grows with the number
    of pointers followed, never with N.
    """

    runs: NDArray[np.int64]
    scored: NDArray[np.int64]
    pointers: NDArray[np.int64]
    nearest: NDArray[np.float32]
    table: NDArray[np.int64]
    places: NDArray[np.int64]
    state_table: NDArray[np.int64]
    state_places: NDArray[np.int64]
    reached: NDArray[np.int64]
    counts: NDArray[np.int64]
    ranks: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    items: NDArray[np.int64]
    hashes: NDArray[np.uint32]
    offered: NDArray[np.int64]


def make_scratch(k: int, max_knns: int, reached: int) -> Scratch:
    """Room for one thread."""
    room = k + max_knns
    followed = max(POINTERS, room)
    table = 1 << (2 * followed - 1).bit_length()
    states = 1 << (2 * max(followed, reached + k) - 1).bit_length()
    ranked = max(followed, 2 * max_knns + 64)
    return Scratch(
        runs=np.empty((reached + k, 2), np.int64),
        scored=np.empty(room, np.int64),
        pointers=np.empty(followed, np.int64),
        nearest=np.empty(followed, np.float32),
        table=np.empty(table, np.int64),
        places=np.empty(table, np.int64),
        state_table=np.empty(states, np.int64),
        state_places=np.empty(states, np.int64),
        reached=np.empty(followed, np.int64),
        counts=np.empty(followed, np.int64),
        ranks=np.empty(ranked, np.uint64),
        spare=np.empty(ranked, np.uint64),
        items=np.empty(ranked, np.int64),
        hashes=np.empty(256, np.uint32),
        offered=np.empty(256, np.int64),
    )


class StepRoom(NamedTuple):
    """Arrays for P and S', as long as F; tables are `size` long.

    `nearest` is the distance of the nearest scored candidate that leads to a pointer, and `counts`
    says how many pointers lead to each state of `reached`. A table holds keys, and `places` beside
    it says where they are in their list.
    """

    size: Whole
    pointers: NDArray[np.int64]
    nearest: NDArray[np.float32]
    table: NDArray[np.int64]
    places: NDArray[np.int64]
    reached: NDArray[np.int64]
    counts: NDArray[np.int64]
    state_table: NDArray[np.int64]
    state_places: NDArray[np.int64]
    ranks: NDArray[np.uint64]
    spare: NDArray[np.uint64]


@compiled
def room_for(scratch: Scratch, total: Whole) -> StepRoom:
    """The thread's own room if F, which has `total` members, fits; else new room for this step."""
    size = table_size(total)
    if total <= scratch.pointers.shape[0]:
        return StepRoom(
            size,
            scratch.pointers,
            scratch.nearest,
            scratch.table,
            scratch.places,
            scratch.reached,
            scratch.counts,
            scratch.state_table,
            scratch.state_places,
            scratch.ranks,
            scratch.spare,
        )
    return StepRoom(
        size,
        np.empty(total, np.int64),
        np.empty(total, np.float32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(total, np.uint64),
        np.empty(total, np.uint64),
    )


@compiled
def are_singles(offsets: Ids) -> bool:
    """Whether offsets rise by one at most: they are read only up to where they do not."""
    for i in range(offsets.shape[0] - 1):
        if np.int64(offsets[i + 1]) - np.int64(offsets[i]) > 1:
            return False
    return True


@compiled
def find_slots(
    columns: Columns,
    entries: NDArray[np.int64],
    slots: NDArray[np.int64],
    values: NDArray[np.int32],
) -> None:
    """Fill in slot and value of every entry; -1 and 0 where there is no such entry."""
    end = columns.values.shape[0]
    for row in range(entries.shape[0]):
        for i in range(entries.shape[1]):
            known = 0 <= entries[row, i] < end
            slots[row, i] = np.int64(columns.slots[entries[row, i]]) if known else -1
        for i in range(entries.shape[1]):
            known = 0 <= slots[row, i] < end
            slots[row, i] = slots[row, i] if known else -1
            values[row, i] = columns.values[slots[row, i]] if known else 0
