"""Names for the arrays that the clustering functions pass to each other."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.float16]
"""Keys as they are stored, [rows, dimension]."""

Rows: TypeAlias = NDArray[np.float16] | NDArray[np.float32]
"""Keys, or anything else that is looked up among centroids, [rows, dimension]."""

Centroids: TypeAlias = NDArray[np.float32]
"""[states, dimension]; a row of NaN stands for a state that has no centroid and no members."""

States: TypeAlias = NDArray[np.int32]
"""The state of each row."""

Counts: TypeAlias = NDArray[np.int64]
"""One whole number per state (or cell, or row)."""

Distances: TypeAlias = NDArray[np.float32]
"""The squared Euclidean distance of each row to its centroid."""
