"""`lm`: the language model alone."""

from collections.abc import Iterator, Sequence

import numpy as np

from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Searching, Setup
from retomaton_dist.methods.mixture import Floats
from retomaton_dist.scores.scores import Scores
from retomaton_dist.scores.walks import Walked, WalkSpec


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
        yield CurvePoint(self.name, None, lm_alone)


def lm_alone(scores: Scores, walked: Walked) -> Floats:  # noqa: ARG001 - a Mixing
    """Log-probability of every token under the LM."""
    return scores.log_lm.astype(np.float64)
