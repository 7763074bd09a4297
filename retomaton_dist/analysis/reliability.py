"""Whether probabilities mean what they say: of tokens that are given 30 %, 30 % should come.

A token has to be singled out before it is known which one comes; here it is the LM's favourite at
every position, the same for all methods.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.canonical import Json

EDGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def reliability(log_p: NDArray[np.floating], came: NDArray[np.bool_]) -> Json:
    """Positions by what probability their favourite was given, and how often it came.

    `error` is the mean distance of the two, over positions.
    """
    said = np.exp(np.asarray(log_p, np.float64))
    place = np.clip(np.searchsorted(EDGES, said, side="right") - 1, 0, len(EDGES) - 2)
    counts = np.bincount(place, minlength=len(EDGES) - 1)
    kept = counts > 0
    sums = [np.bincount(place, rows, len(EDGES) - 1)[kept] for rows in (said, came)]
    said_mean, came_mean = (total / counts[kept] for total in sums)
    return {
        "bins": [
            {"said": float(a), "came": float(b), "tokens": int(count)}
            for a, b, count in zip(said_mean, came_mean, counts[kept], strict=True)
        ],
        "said": float(said.mean()),
        "came": float(came.mean()),
        "error": float(np.average(abs(said_mean - came_mean), weights=counts[kept])),
    }
