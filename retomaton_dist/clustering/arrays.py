"""Names for the arrays that the clustering functions pass to each other, and how they are cut."""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.float16]
"""Keys as they are stored, [rows, dimension]."""

Centroids: TypeAlias = NDArray[np.float32]
"""[states, dimension]; a row of NaN stands for a state that has no centroid and no members."""

StateOfRow: TypeAlias = NDArray[np.int32]
"""The state of each row."""

Counts: TypeAlias = NDArray[np.int64]
"""One whole number per state (or cell, or row)."""

Distances: TypeAlias = NDArray[np.float32]
"""The squared Euclidean distance of each row to its centroid."""


def blocks_of(rows: int, size: int) -> Iterator[slice]:
    """Cut 0..rows-1 into slices of `size`, the last of which may be shorter."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))
