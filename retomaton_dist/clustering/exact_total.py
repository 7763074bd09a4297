"""A sum of many float32 numbers that comes out the same in whatever order they are added."""

import numpy as np

from retomaton_dist.clustering.arrays import Counts, Distances
from retomaton_dist.clustering.blocks import blocks_of

EXPONENTS = 256
_MANTISSA = 23


def digits_of(numbers: Distances) -> Counts:
    """Add up the mantissas of non-negative numbers, one sum per exponent.

    Digits of several arrays add up to the digits of all, exactly, below 2^39 numbers.
    """
    digits = np.zeros(EXPONENTS, np.int64)
    for part in blocks_of(len(numbers), 1 << 20):
        bits = numbers[part].view(np.int32)
        exponents = bits >> _MANTISSA
        mantissas = bits & (2**_MANTISSA - 1) | (exponents > 0).astype(np.int32) << _MANTISSA
        digits += np.bincount(exponents, mantissas, EXPONENTS).astype(np.int64)
    return digits


def total_of(digits: Counts) -> float:
    """Return the sum that the digits stand for, rounded once."""
    whole = sum(digit << max(exponent - 1, 0) for exponent, digit in enumerate(digits.tolist()))
    return float(whole / 2**149)
