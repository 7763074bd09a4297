"""Drawing positions at random, but always the same ones."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.integer]


def uniform(documents: Numbers, positions: Numbers) -> NDArray[np.float64]:
    """A number in [0, 1) for every position, always the same one (SplitMix64)."""
    mixed = (documents.astype(np.uint64) << np.uint64(32)) | positions.astype(np.uint64)
    mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
