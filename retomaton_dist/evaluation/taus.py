"""Choosing thresholds by the fraction of saved searches that they have on the calibration text."""

import math
from collections.abc import Sequence

import numpy as np

from retomaton_dist.evaluation.scores import Scores
from retomaton_dist.evaluation.walks import WalkSpec

# Walked on the calibration text: enough to interpolate between.
COARSE = (1.0, 4.0, 16.0, 64.0, 256.0, math.inf)
POINTS = 8


def measured_foss(scores: Scores, automaton: str, taus: Sequence[float]) -> list[float]:
    """FoSS of each tau."""
    labels = [WalkSpec(automaton, tau).label for tau in taus]
    return [1 - float(scores.searched(label).mean()) for label in labels]


def spread_taus(taus: Sequence[float], foss: Sequence[float]) -> tuple[float, ...]:
    """About eight thresholds, 1 and infinity among them, whose FoSS are evenly spread."""
    wanted = np.linspace(0, max(foss), POINTS)[1:-1]
    found = {tau_for(float(target), taus, foss) for target in wanted}
    return tuple(sorted({1.0, math.inf, *found}))


def tau_for(target: float, taus: Sequence[float], foss: Sequence[float]) -> float:
    """The threshold with this FoSS, by interpolation in log tau; 1 if none has as much."""
    if target <= 0:
        return math.inf
    finite = [tau for tau in taus if math.isfinite(tau)]
    largest = max(finite, default=1.0)
    logs = [math.log2(tau if math.isfinite(tau) else 4 * largest) for tau in taus]
    # A larger tau searches at least about as often; small exceptions must not confuse.
    falling = np.minimum.accumulate(np.asarray(foss, np.float64))
    log = np.interp(target, falling[::-1], np.asarray(logs)[::-1])
    return float(max(1, round(2.0 ** float(log))))
