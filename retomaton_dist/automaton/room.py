"""Room for what one step finds: P, S' and tables of both."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Scratch
from retomaton_dist.compiled import Whole, compiled


class Room(NamedTuple):
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
def room_for(scratch: Scratch, total: Whole, size: Whole) -> Room:
    """The thread's own room if it is large enough, else new room for this step."""
    if total <= scratch.pointers.shape[0]:
        return Room(
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
    return Room(
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
