"""`lm`: the language model alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from retomaton_dist.engine.mixture import Candidates, Floats, LMFeatures
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkResult, WalkSpec
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Searching, Setup


@dataclass(frozen=True)
class LmAlone:
    """p = p_lm."""

    experts: tuple[Candidates, ...] = ()

    def log_shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:  # noqa: ARG002 - the contract's
        """All for the LM."""
        return np.zeros((len(walked.nearest), 1))


class Lm(Method):
    """Never searches: all of its searches are saved."""

    name = "lm"
    searching = Searching.NEVER

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:  # noqa: ARG002 - the contract's
        """None."""
        return ()

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:  # noqa: ARG002
        """There is nothing to find."""
        return Calibrated({})

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:  # noqa: ARG002
        """One point."""
        yield CurvePoint(self.name, None, LmAlone())
