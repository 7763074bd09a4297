"""`retomaton`: walk the automaton, search when the walk runs thin; `+pw` weighs pointers more."""

import math
from collections.abc import Iterator, Sequence

from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkSpec
from retomaton_dist.methods.constant import ConstantMixing, as_facts, find_constants, from_facts
from retomaton_dist.methods.knnlm import WIDE
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Setup
from retomaton_dist.storage.canonical import Json

POINTER_WEIGHTS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class Retomaton(Method):
    """Constants are found at FoSS 0 for each clustering, then stay along its curve."""

    name = "retomaton"
    baseline = WIDE
    pointer_weights: Sequence[float] | None = None

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Every tau of every clustering."""
        return [WalkSpec(name, tau) for name in setup.automata for tau in setup.taus[name]]

    def calibration_walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Each clustering with a search at every position."""
        return [WalkSpec(name, math.inf) for name in setup.automata]

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Lambda and temperature (and pointer weight), by clustering."""
        facts: Json = {}
        for name in setup.automata:
            spec = WalkSpec(name, math.inf)
            facts[name] = as_facts(find_constants(scores, spec, setup, self.pointer_weights))
        return Calibrated(facts)

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point per clustering and tau."""
        for spec in self.walks(setup):
            facts = calibrated.facts[spec.automaton]
            mixing = ConstantMixing(from_facts(facts))
            yield CurvePoint(self.name, spec, mixing, facts=facts)


class PointerWeight(Retomaton):
    """Candidates that a pointer leads to weigh more, by a calibrated factor."""

    name = "retomaton+pw"
    pointer_weights = POINTER_WEIGHTS
