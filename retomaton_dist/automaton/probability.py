"""From log-sums to probabilities: p_auto, and its interpolation with the language model."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.automaton.summing import ALL, OTHER, POINTED, TARGET

Floats = NDArray[np.float64]


def log_automaton(sums: Floats, pointer_weight: float = 1.0) -> Floats:
    """Logarithm of the targets' p_auto, [lanes, temperatures]; NaN without candidates."""
    shift = np.log(pointer_weight)
    weighed = np.logaddexp(sums[..., POINTED] + shift, sums[..., OTHER])
    with np.errstate(invalid="ignore"):
        result: Floats = weighed[..., TARGET] - weighed[..., ALL]
    return result


def interpolate(log_auto: Floats, log_lm: ArrayLike, weight: ArrayLike) -> Floats:
    """Logarithm of p: log(lambda p_auto + (1 - lambda) p_lm); p = p_lm where p_auto is NaN."""
    share, lm = np.asarray(weight, np.float64), np.asarray(log_lm, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = np.logaddexp(np.log(share) + log_auto, np.log1p(-share) + lm)
    result: Floats = np.where(np.isnan(log_auto), lm, mixed)
    return result
