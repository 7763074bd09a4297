"""Slot order = (state, value, entry), made in memory; the stage `compile` makes it by units."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.automaton.arrays import Columns, Ids
from storage.automaton import id_type


def arrange(
    state_of_entry: ArrayLike, values: ArrayLike, pointers: ArrayLike, states: int | None = None
) -> Columns:
    """Lay out entries whose states, values and pointers (-1: none) are given, in entry order."""
    state, value = np.asarray(state_of_entry, np.uint32), np.asarray(values, np.int32)
    ids = id_type(len(state))
    entries = slot_order(state, value).astype(ids)
    slots = np.empty(len(state), ids)
    slots[entries] = np.arange(len(state), dtype=ids)
    count = int(state.max()) + 1 if states is None else states
    offsets = np.zeros(count + 1, ids)
    np.cumsum(np.bincount(state, minlength=count), out=offsets[1:])
    return Columns(
        offsets=offsets,
        values=value[entries],
        nexts=next_slots(np.asarray(pointers, np.int64)[entries], slots),
        states=state[entries],
        entries=entries,
        slots=slots,
    )


def next_slots(pointers: NDArray[np.int64], slots: Ids) -> Ids:
    """Slots of the entries pointed to; where there is none, the type's own -1."""
    nexts: Ids = slots[np.maximum(pointers, 0)]
    nexts[pointers < 0] = np.array(-1).astype(slots.dtype)
    return nexts


def slot_order(states: Ids, values: NDArray[np.int32]) -> NDArray[np.int64]:
    """The stable order by (state, value): which entry each slot has; states are not negative."""
    rows = len(states)
    place_bits, value_bits = rows.bit_length(), int(values.max(initial=0)).bit_length()
    fits = int(states.max(initial=0)).bit_length() + value_bits + place_bits < 64
    if not fits or values.min(initial=0) < 0:
        return np.lexsort((values, states))
    # One number holds all three: sorting plain numbers is far faster than sorting by keys.
    packed = states.astype(np.int64)
    packed <<= value_bits
    packed |= values
    packed <<= place_bits
    packed |= np.arange(rows)
    packed.sort()
    packed &= (1 << place_bits) - 1
    return packed
