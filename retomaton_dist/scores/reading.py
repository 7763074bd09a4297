"""What the language model said, row by row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Reading:
    """Row by row: the query, the token, and what the LM makes of it (natural logarithms).

    `previous` is the token before, -1 at a document's start. `entropy` and `confidence` (the
    largest log-probability) do not depend on the token; `favourites` are the tokens that have it.
    """

    queries: NDArray[np.float16]
    tokens: NDArray[np.int32]
    previous: NDArray[np.int32]
    log_lm: NDArray[np.float32]
    entropy: NDArray[np.float32]
    confidence: NDArray[np.float32]
    favourites: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.tokens)
