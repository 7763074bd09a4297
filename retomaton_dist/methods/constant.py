"""Mixing with constants: lambda, temperature and pointer weight are the same for all tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retomaton_dist.errors import BadInput
from retomaton_dist.methods.method import Setup
from retomaton_dist.methods.mixing import Version, trusting_the_lm
from retomaton_dist.methods.mixture import Constants, Floats, best_constants
from retomaton_dist.scores.scores import Scores
from retomaton_dist.scores.seen import Seen
from retomaton_dist.scores.walks import Walked, WalkSpec
from retomaton_dist.storage.canonical import Json


@dataclass(frozen=True)
class ConstantMixing:
    """p = lambda p_auto + (1 - lambda) p_lm."""

    constants: Constants

    @property
    def versions(self) -> tuple[Version, ...]:
        """One."""
        return (Version(self.constants.temperature, self.constants.pointer_weight),)

    def log_shares(self, seen: Seen, walked: Walked) -> Floats:  # noqa: ARG002 - the contract's
        """1 - lambda and lambda."""
        weight = np.float64(self.constants.weight)
        with np.errstate(divide="ignore"):
            shares = np.array([np.log1p(-weight), np.log(weight)])
        return trusting_the_lm(np.tile(shares, (len(walked.nearest), 1)), walked)


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


def with_constants(facts: Json, given: Json) -> Json:
    """The same facts with the constants that are given, wherever they stand; None gives none."""
    changed: Json = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            changed[name] = with_constants(value, given)
        else:
            changed[name] = value if given.get(name) is None else given[name]
    return changed
