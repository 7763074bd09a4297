"""`knnlm`: a search at every position; some are dropped at random where searches are saved.

`knnlm+wide` searches for as many candidates as RetoMaton may score: what is gained over it is not
gained by looking at more entries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.uniform import uniform
from retomaton_dist.engine.walks import WalkSpec, stateless_walk
from retomaton_dist.methods.constant import ConstantMixing, as_facts, find_constants, from_facts
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Setup

WIDE = "knnlm+wide"


@dataclass(frozen=True)
class RandomGate:
    """Drops a fraction of the searches, by a hash of the position alone."""

    fraction: float

    def __call__(
        self, reading: LMOutput, documents: NDArray[np.int32], positions: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Say of each row whether it is searched."""
        del reading
        return uniform(documents, positions) >= self.fraction


def random_gate(fraction: float) -> RandomGate | None:
    """A gate that drops this fraction; None if it is always open."""
    return RandomGate(fraction) if fraction else None


class KnnLm(Method):
    """The candidates are what the search finds; without a search, p = p_lm."""

    name = "knnlm"
    wide = False

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """The stateless walk."""
        return (stateless_walk(setup.automata[0], wide=self.wide),)

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Lambda and temperature with a search at every position."""
        return Calibrated(as_facts(find_constants(scores, self.walks(setup)[0], setup)))

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point per fraction of dropped searches."""
        mixing = ConstantMixing(from_facts(calibrated.facts))
        for fraction in setup.fractions:
            facts = {**calibrated.facts, "fraction": fraction}
            gate = random_gate(fraction)
            yield CurvePoint(self.name, self.walks(setup)[0], mixing, gate, facts)


class KnnLmWide(KnnLm):
    """The same with k + max_knns candidates."""

    name = WIDE
    wide = True
