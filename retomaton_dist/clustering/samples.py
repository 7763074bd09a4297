"""Which rows an iteration of k-means sees: few at first, all of them in the end.

The first iterations move centroids far, for which a fraction of the rows is enough; each draws
other ones. What a sample leaves without rows is refilled at once (`update.py`), so that centroids
leave places that hardly anything is near to, and the result is better than that of as many
iterations over all rows, at a quarter of the work (docs/explanation/algorithm.md).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.draw import Draw

# One row in so many, from the last iteration backwards; those before are as the first.
_STRIDES = (1, 2, 4, 4, 8, 8, 8, 16)
_ROWS_PER_STATE = 6
LEAST_ROWS = 1 << 11
# Far from the seeds that rows and first centroids are drawn by.
_FIRST_SEED = 1 << 32


def strides_for(rows: int, states: int, iterations: int) -> tuple[int, ...]:
    """Of how many rows each iteration sees one; the last one sees all."""
    most = max(1, min(rows // (_ROWS_PER_STATE * states), rows // LEAST_ROWS))
    known = _STRIDES[:iterations] + _STRIDES[-1:] * (iterations - len(_STRIDES))
    return tuple(min(stride, 1 << (most.bit_length() - 1)) for stride in reversed(known))


def passes(rows: int, states: int, iterations: int) -> float:
    """How often all iterations together see every row."""
    return sum(1 / stride for stride in strides_for(rows, states, iterations))


def rows_seen(first: int, last: int, iteration: int, stride: int) -> NDArray[np.int64]:
    """Those of the rows first..last-1 that an iteration sees, ascending."""
    if stride == 1:
        return np.arange(first, last)
    return Draw(_FIRST_SEED + iteration, 2**64 // stride - 1).among(first, last)


def tells_moves(strides: Sequence[int], iteration: int) -> bool:
    """Whether an iteration and the one before see all rows: how many have moved is known then."""
    return all(stride == 1 for stride in strides[: iteration + 1][-2:])
