"""`adaptret`: a trained network decides from the LM's own state whether to search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.sums import log_automaton
from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.mixture import Candidates, Floats, LMFeatures, without_candidates
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkResult, WalkSpec, stateless_walk
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.adaptret_network import AdaptRetNetwork, train_adaptret
from retomaton_dist.methods.constant import find_constants
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Setup


@dataclass(frozen=True, repr=False)
class AdaptRetGate:
    """Searches where the network trusts the LM less than `threshold`."""

    network: AdaptRetNetwork
    threshold: float

    def __call__(
        self, reading: LMOutput, documents: NDArray[np.int32], positions: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Say of each row whether it is searched."""
        del documents, positions
        chosen: NDArray[np.bool_] = self.network.log_shares(reading)[:, 0] < self.threshold
        return chosen

    def __repr__(self) -> str:
        return f"AdaptRetGate({self.threshold!r})"


@dataclass(frozen=True)
class AdaptRetMixing:
    """p = share_knn p_knn + share_lm p_lm where there was a search, else p_lm."""

    network: AdaptRetNetwork
    temperature: float

    @property
    def experts(self) -> tuple[Candidates, ...]:
        """One, in which pointers weigh nothing more."""
        return (Candidates(self.temperature, 1.0),)

    def shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:
        """As the network trusts them."""
        shares = np.exp(self.network.log_shares(lm.whole()))
        return without_candidates(shares, self.experts, walked)


class AdaptRet(Method):
    """Thresholds are quantiles of the network's trust on the calibration text."""

    name = "adaptret"
    uses_queries = True

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """The stateless walk."""
        return (stateless_walk(setup.automata[0]),)

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Train the network with the temperature that suits kNN-LM; find the thresholds."""
        if scores is None:
            raise BadInput(f"{self.name} is trained on held-out text: name some: --calibrate-on")
        spec = self.walks(setup)[0]
        temperature = find_constants(scores, spec, setup).temperature
        log_knn = log_automaton(scores.walk(spec.label).at(temperature))
        said = scores.whole()
        network, facts = train_adaptret(said, log_knn, scores.document, setup.statistics())
        trust = network.log_shares(said)[:, 0]
        thresholds = {str(share): float(np.quantile(trust, 1 - share)) for share in setup.fractions}
        found = {**facts, "temperature": temperature, "thresholds": thresholds}
        return Calibrated(found, network.arrays())

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point per fraction of searches to be saved; at 0 all positions are searched."""
        network = AdaptRetNetwork.of(calibrated.arrays)
        temperature = calibrated.facts["temperature"]
        mixing = AdaptRetMixing(network, temperature)
        for share in setup.fractions:
            threshold = calibrated.facts["thresholds"][str(share)]
            gate = AdaptRetGate(network, threshold) if share else None
            facts = {"lambda": None, "temperature": temperature, "fraction": share}
            yield CurvePoint(self.name, self.walks(setup)[0], mixing, gate, facts)
