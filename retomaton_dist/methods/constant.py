"""Mixing with constants: lambda, temperature and pointer weight are the same for all tokens.

With r = p_auto / p_lm the likelihood of a token is p_lm (1 + lambda (r - 1)). Its logarithm is
concave in lambda, so that the best lambda is where the derivative's sign changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.sums import interpolate, log_automaton
from retomaton_dist.engine.mixture import Candidates, Floats, LMFeatures, without_candidates
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkResult, WalkSpec
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.method import Setup
from retomaton_dist.storage.canonical import Json

BISECTIONS = 20
# Beyond this a ratio decides nothing more, and its exponential stays finite.
LARGEST_LOG_RATIO = 60.0
LEAST_WEIGHT, MOST_WEIGHT = 0.001, 0.999


@dataclass(frozen=True)
class Constants:
    """What turns log-sums and p_lm into p."""

    weight: float
    temperature: float
    pointer_weight: float = 1.0


@dataclass(frozen=True)
class ConstantMixing:
    """p = lambda p_auto + (1 - lambda) p_lm."""

    constants: Constants

    @property
    def experts(self) -> tuple[Candidates, ...]:
        """One."""
        return (Candidates(self.constants.temperature, self.constants.pointer_weight),)

    def shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:  # noqa: ARG002 - the contract's
        """1 - lambda and lambda."""
        shares = np.array([1.0 - self.constants.weight, self.constants.weight])
        tiled = np.tile(shares, (len(walked.nearest), 1))
        return without_candidates(tiled, self.experts, walked)


def find_constants(
    scores: Scores | None,
    spec: WalkSpec,
    setup: Setup,
    pointer_weights: Sequence[float] | None = None,
) -> Constants:
    """The best constants for a walk on the calibration text; what the setup gives stays."""
    if scores is None:
        if setup.weight is None or setup.temperature is None:
            raise BadInput(
                "lambda and temperature are calibrated on held-out text: name some with "
                "--calibrate-on, or give both --lambda and --temperature"
            )
        return Constants(setup.weight, setup.temperature, setup.pointer_weight)
    return best_constants(
        scores.walk(spec.label).sums,
        scores.temperatures,
        scores.log_lm,
        weight=setup.weight,
        temperature=setup.temperature,
        pointer_weights=pointer_weights or (setup.pointer_weight,),
    )


def log_mixture(
    sums: NDArray[np.float32],
    temperatures: Sequence[float],
    log_lm: NDArray[np.float32],
    constants: Constants,
) -> Floats:
    """Log-probability of every token under constant lambda, temperature and pointer weight."""
    place = temperatures.index(constants.temperature)
    log_auto = log_automaton(sums[:, place].astype(np.float64), constants.pointer_weight)
    return interpolate(log_auto, log_lm, constants.weight)


def best_weight(log_auto: Floats, log_lm: NDArray[np.float32]) -> tuple[float, float]:
    """The lambda that makes the tokens likeliest, and their mean log-probability under it."""
    difference = np.where(np.isnan(log_auto), 0.0, log_auto - log_lm)
    gain = np.expm1(np.minimum(difference, LARGEST_LOG_RATIO))
    low, high = LEAST_WEIGHT, MOST_WEIGHT
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        rising = np.mean(gain / (1 + middle * gain)) > 0
        low, high = (middle, high) if rising else (low, middle)
    weight = round((low + high) / 2, 3)
    return weight, float(np.mean(log_lm + np.log1p(weight * gain)))


def best_constants(
    sums: NDArray[np.float32],
    temperatures: Sequence[float],
    log_lm: NDArray[np.float32],
    *,
    weight: float | None = None,
    temperature: float | None = None,
    pointer_weights: Sequence[float] = (1.0,),
) -> Constants:
    """The likeliest constants on a grid of temperatures and pointer weights; those given stay."""
    best: tuple[float, Constants] | None = None
    for degree in choosable(temperatures) if temperature is None else [temperature]:
        column = sums[:, temperatures.index(degree)].astype(np.float64)
        for pointer_weight in pointer_weights:
            log_auto = log_automaton(column, pointer_weight)
            found, value = (
                best_weight(log_auto, log_lm)
                if weight is None
                else (weight, float(interpolate(log_auto, log_lm, weight).mean()))
            )
            if best is None or value > best[0]:
                best = value, Constants(found, degree, pointer_weight)
    assert best is not None, "a grid has three octaves at least"
    return best[1]


def choosable(temperatures: Sequence[float]) -> list[float]:
    """Those of a grid that has half and double of them, too: what is chosen can be varied."""
    known = set(temperatures)
    return [degree for degree in temperatures if {degree / 2, degree * 2} <= known]


def as_facts(constants: Constants) -> Json:
    """Constants as results show them."""
    return {
        "lambda": constants.weight,
        "temperature": constants.temperature,
        "pointer_weight": constants.pointer_weight,
    }


def from_facts(facts: Json) -> Constants:
    """Constants as they were shown."""
    return Constants(facts["lambda"], facts["temperature"], facts["pointer_weight"])


def with_constants(facts: Json, given: Json) -> Json:
    """The same facts with the constants that are given, wherever they stand; None gives none."""
    changed: Json = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            changed[name] = with_constants(value, given)
        else:
            changed[name] = value if given.get(name) is None else given[name]
    return changed
