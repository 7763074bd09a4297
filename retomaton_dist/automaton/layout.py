"""Slot order = (state, value, entry), and kernels that lay out columns in it."""

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
def scatter(places: Ids, numbers: Ids, first: Whole, column: Ids) -> Whole:
    """Put each number at its place in a column that begins at `first`; return how many fit."""
    count: Whole = 0
    for i in range(places.shape[0]):
        place = np.int64(places[i]) - first
        if 0 <= place < column.shape[0]:
            column[place] = numbers[i]
            count += 1
    return count
