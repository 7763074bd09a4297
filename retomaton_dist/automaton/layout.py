"""Slot order = (state, value, entry), and kernels that put entries into it.

The stage `compile` lays out an automaton with them, a unit at a time; each kernel is one sweep.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.compiled import Whole, compiled


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


@compiled
def pick(numbers: Ids, first: Whole, last: Whole, found: Ids) -> Whole:
    """List where numbers are in first..last-1, as far as there is room; return how many are.

    The last place of `found` is not for the list.
    """
    # Written whether wanted or not, without a branch; the next one wanted is written over it.
    spare = found.shape[0] - 1
    count: Whole = 0
    for i in range(numbers.shape[0]):
        found[min(count, spare)] = i
        count += first <= np.int64(numbers[i]) < last
    return count


@compiled
def place_rows(
    source: NDArray[Any], entries: Ids, places: Ids, first: Whole, out: NDArray[Any]
) -> None:
    """Copy the row of entries[i] to out[places[i] - first], where that is inside of it."""
    for i in range(entries.shape[0]):
        place = places[i] - first
        if 0 <= place < out.shape[0]:
            for j in range(out.shape[1]):
                out[place, j] = source[entries[i], j]


def words(rows: NDArray[Any]) -> NDArray[Any]:
    """The same rows [N, ...] seen as [N, words] of the widest type that fits: copied faster."""
    flat = rows.reshape(len(rows), -1)
    size = flat.shape[1] * flat.itemsize
    kind = next(kind for kind in ("u8", "u4", "u2", "u1") if not size % np.dtype(kind).itemsize)
    return flat.view(kind)


@compiled
def invert(entries: Ids, first: Whole, slots: Ids) -> None:
    """Note the slots of those entries that lie in first.., as many as there is room for."""
    room = slots.shape[0]
    for slot in range(entries.shape[0]):
        place = np.int64(entries[slot]) - first
        if 0 <= place < room:
            slots[place] = slot


@compiled
def link(pointers: NDArray[np.int64], slots: Ids, places: Ids, nexts: Ids) -> None:
    """Put the slot that pointers[i] leads to at nexts[places[i]]; none leaves it as it is."""
    for i in range(pointers.shape[0]):
        if 0 <= pointers[i] < slots.shape[0]:
            nexts[places[i]] = slots[pointers[i]]
