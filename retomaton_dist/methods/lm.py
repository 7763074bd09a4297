"""`lm` and `ngram`: the language model alone, and the corpus's n-gram model alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from retomaton_dist.engine.mixture import Expert, Floats, LMFeatures, TextExpert
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkResult, WalkSpec
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Searching, Setup


@dataclass(frozen=True)
class LmAlone:
    """p = p_lm."""

    experts: tuple[Expert, ...] = ()

    def shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:  # noqa: ARG002 - the contract's
        """All for the LM."""
        return np.ones((len(walked.nearest), 1))


class Lm(Method):
    """Never searches: all of its searches are saved."""

    name = "lm"
    searching = Searching.NEVER
    learns = False

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:  # noqa: ARG002 - the contract's
        """None."""
        return ()

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:  # noqa: ARG002
        """There is nothing to find."""
        return Calibrated({})

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:  # noqa: ARG002
        """One point."""
        yield CurvePoint(self.name, None, LmAlone())


@dataclass(frozen=True)
class NgramAlone:
    """p = p_ngram."""

    experts: tuple[Expert, ...] = (TextExpert.NGRAM,)

    def shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:  # noqa: ARG002 - the contract's
        """All for the n-gram model."""
        return np.tile([0.0, 1.0], (len(walked.nearest), 1))


class Ngram(Lm):
    """Never searches, and does not ask the LM either."""

    name = "ngram"
    baseline = "lm"
    text = (TextExpert.NGRAM,)

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:  # noqa: ARG002
        """One point."""
        yield CurvePoint(self.name, None, NgramAlone())
