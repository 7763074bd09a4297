"""Which documents of the calibration text a network is not trained on."""

import numpy as np
from numpy.typing import NDArray


def held_out(documents: NDArray[np.int32], share: float, seed: int) -> NDArray[np.bool_]:
    """Rows of documents drawn at random that hold about this share of all rows, at least one.

    Of a single document, its last rows.
    """
    numbers, sizes = np.unique(documents, return_counts=True)
    if len(numbers) == 1:
        rows = len(documents)
        return np.arange(rows) >= min((1 - share) * rows, rows - 1)
    order = np.random.default_rng(seed).permutation(len(numbers))
    room, chosen = share * len(documents), []
    for place in order:
        if sizes[place] <= room:
            chosen.append(place)
            room -= sizes[place]
    # All are larger than the share: the smallest costs least.
    return np.isin(documents, numbers[chosen or [int(np.argmin(sizes))]])
