"""Runs: how long a walk has gone on since it last searched."""

import numpy as np
from numpy.typing import NDArray


def steps_since_search(
    documents: NDArray[np.int32], searched: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Steps since the last search of the same document; 0 where it searches.

    Rows are in the order of the text. A document's first rows count from its start.
    """
    places = np.arange(len(documents))
    starts = np.concatenate([[True], documents[1:] != documents[:-1]])[: len(documents)]
    last = np.maximum.accumulate(np.where(searched | starts, places, 0))
    steps: NDArray[np.int64] = places - last
    return steps
