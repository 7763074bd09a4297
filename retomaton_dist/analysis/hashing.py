"""64-bit hashes of n-grams, for whole arrays of tokens at once.

Equal n-grams have equal hashes. That two different ones share a hash happens about once in 2^64
pairs: a million n-grams of a text meet a false one among 10^9 of a corpus with odds of 1 : 18,000.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

# Odd constants of splitmix64.
_LEFT = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def gram_hashes(tokens: NDArray[np.int32], n: int) -> Hashes:
    """Hash of the n tokens from each place on, as many as there are whole n-grams."""

    @cache
    def hashes(length: int) -> Hashes:
        if length == 1:
            return _mix(tokens.astype(np.uint64) + _LEFT)
        half = length // 2
        count = max(0, len(tokens) - length + 1)
        return _mix(hashes(half)[:count] * _LEFT + hashes(length - half)[half : half + count])

    return hashes(n)


def _mix(values: Hashes) -> Hashes:
    # Between two halves, or a sum of products would be the same for other tokens far too often.
    values ^= values >> np.uint64(30)
    values *= _FIRST
    values ^= values >> np.uint64(27)
    values *= _SECOND
    values ^= values >> np.uint64(31)
    return values
