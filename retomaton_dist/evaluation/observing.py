"""What is worth recording of lanes after a step, besides their log-sums."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import LaneArrays
from retomaton_dist.compiled import compiled


@compiled
def observe(
    lanes: LaneArrays,
    chosen: NDArray[np.int64],
    nearest: NDArray[np.float32],
    pointed: NDArray[np.int32],
) -> None:
    """Fill each lane's smallest distance (infinite: no candidate), and how many are in P."""
    for i in range(chosen.shape[0]):
        lane = chosen[i]
        smallest, count = np.float32(np.inf), 0
        for j in range(lanes.counts[lane]):
            smallest = min(smallest, lanes.distances[lane, j])
            count += lanes.pointed[lane, j]
        nearest[i], pointed[i] = smallest, count
