"""Telling numbers from what is none: damage in keys or codes shows as NaN."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled


@compiled
def all_numbers(distances: NDArray[np.float32]) -> bool:
    """Whether none of them is NaN."""
    sound = True
    for i in range(distances.shape[0]):
        # Only NaN differs from itself.
        sound &= distances[i] == distances[i]
    return sound
