"""Mixing with constants: lambda, temperature and pointer weight are the same for all tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from retomaton_dist.errors import BadInput
from retomaton_dist.methods.method import Setup
from retomaton_dist.methods.mixture import Constants, Floats, best_constants, log_mixture
from retomaton_dist.scores.scores import Scores
from retomaton_dist.scores.walks import Walked, WalkSpec
from storage.canonical import Json


@dataclass(frozen=True)
class ConstantMixing:
    """p = lambda p_auto + (1 - lambda) p_lm."""

    constants: Constants

    def __call__(self, scores: Scores, walked: Walked) -> Floats:
        """Log-probability of every token."""
        return log_mixture(walked.sums, scores.temperatures, scores.log_lm, self.constants)


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
