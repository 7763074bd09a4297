"""From entries that a search found to their slots and values."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Columns
from retomaton_dist.compiled import compiled


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
