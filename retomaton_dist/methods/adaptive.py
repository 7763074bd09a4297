"""Methods with `+lambda`: how far to trust the automaton is learned, token by token.

A small network looks at what a walk knows before the token is seen - distances, numbers of states
and candidates, steps since the restart, the length of the suffix that it restarted by, the LM's
entropy and confidence - and mixes the LM with a few versions of p_auto: cooler, warmer, and with
heavier pointers. It learns from the cached scores of the calibration text alone.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.sums import ALL, OTHER, POINTED
from retomaton_dist.engine.mixture import (
    Candidates,
    Floats,
    LMFeatures,
    log_experts,
    without_candidates,
)
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkResult, WalkSpec, stateless_walk
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.constant import Constants, as_facts, find_constants, from_facts
from retomaton_dist.methods.held_out import held_out
from retomaton_dist.methods.knnlm import WIDE, random_gate
from retomaton_dist.methods.method import (
    Calibrated,
    CurvePoint,
    Method,
    Searching,
    Setup,
    arrays_below,
)
from retomaton_dist.methods.mixture_network import SEED, MixtureNetwork, train_mixture
from retomaton_dist.methods.retomaton import POINTER_WEIGHTS
from retomaton_dist.methods.suffix import restart_walks
from retomaton_dist.storage.canonical import Json

# Share of the calibration text that tells when a network has learned enough.
HELD_OUT = 0.15
LEAST_SHARE = 0.02
# Factors of the calibrated temperature: how many candidates are about as near as the nearest.
CROWDS = (0.5, 1.0, 2.0)
KNNLM = "knnlm"


@dataclass(frozen=True)
class Bases:
    """The constants of `retomaton+pw` and of `retomaton`, which versions of p_auto vary."""

    weighed: Constants
    plain: Constants

    def experts(self) -> tuple[Candidates, ...]:
        """Those that are mixed; the first is that of `retomaton+pw`."""
        weighed, plain = self.weighed, self.plain
        return tuple(
            Candidates(constants.temperature * factor, constants.pointer_weight)
            for constants, factors in ((weighed, (1.0, 0.5)), (plain, (1.0, 0.5, 2.0)))
            for factor in factors
        )

    def begin(self) -> list[float]:
        """Shares of the LM and of each version that are those of `retomaton+pw`, almost."""
        weight = self.weighed.weight
        return [1 - weight, weight, *[LEAST_SHARE] * (len(self.experts()) - 1)]


@dataclass(frozen=True)
class AdaptiveMixing:
    """p = sum of learned shares of p_lm and of versions of p_auto."""

    network: MixtureNetwork
    bases: Bases
    suffixes: bool = False

    @cached_property
    def experts(self) -> tuple[Candidates, ...]:
        """Those of its bases."""
        return self.bases.experts()

    def shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:
        """As the network trusts them."""
        known = features(lm, walked, self.bases.plain.temperature, self.suffixes)
        return without_candidates(np.exp(self.network.log_shares(known)), self.experts, walked)


class LearnedMixing(Method):
    """One network for each group of walks, which knows nothing of their thresholds."""

    baseline = "knnlm+lambda"
    pointer_weights: Sequence[float] | None = POINTER_WEIGHTS

    @abstractmethod
    def groups(self, setup: Setup) -> Mapping[str, Sequence[WalkSpec]]:
        """The walks that a network serves, by the network's name."""

    @abstractmethod
    def searched_most(self, setup: Setup, name: str) -> WalkSpec:
        """The walk of a group that the constants which a network varies are found for."""

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Those of all groups."""
        return [spec for specs in self.groups(setup).values() for spec in specs]

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Train a network per group on all its walks over the calibration text."""
        if scores is None:
            raise BadInput(f"{self.name} learns from held-out text: name some with --calibrate-on")
        facts: Json = {}
        arrays: dict[str, NDArray[Any]] = {}
        for name, specs in self.groups(setup).items():
            spec = self.searched_most(setup, name)
            bases = Bases(
                find_constants(scores, spec, setup, self.pointer_weights),
                find_constants(scores, spec, setup),
            )
            network, learned = _train(scores, specs, bases, self.uses_suffixes)
            begun = {"weighed": as_facts(bases.weighed), "plain": as_facts(bases.plain)}
            facts[name] = {**begun, **learned}
            arrays |= {f"{name}.{key}": array for key, array in network.arrays().items()}
        return Calibrated(facts, arrays)

    def retrain(
        self, calibrated: Calibrated, scores: Scores, specs: Sequence[WalkSpec], redraw: "Redraw"
    ) -> AdaptiveMixing:
        """What calibration would have learned for a group of walks from another draw of the text.

        The constants that networks vary stay as calibrated.
        """
        bases = self._bases(calibrated, self.group_of(specs[0]))
        network, _ = _train(scores, specs, bases, self.uses_suffixes, redraw)
        return AdaptiveMixing(network, bases, self.uses_suffixes)

    def group_of(self, spec: WalkSpec) -> str:
        """The group that a walk is in."""
        return spec.automaton

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point per walk."""
        for name, specs in self.groups(setup).items():
            mixing = self.mixing(calibrated, name)
            for spec in specs:
                yield CurvePoint(self.name, spec, mixing, facts=self.shown(spec))

    def mixing(self, calibrated: Calibrated, name: str) -> AdaptiveMixing:
        """What a group's network makes of its walks."""
        network = MixtureNetwork.of(arrays_below(calibrated.arrays, f"{name}."))
        return AdaptiveMixing(network, self._bases(calibrated, name), self.uses_suffixes)

    def _bases(self, calibrated: Calibrated, name: str) -> Bases:
        found = calibrated.facts[name]
        return Bases(from_facts(found["weighed"]), from_facts(found["plain"]))

    def shown(self, spec: WalkSpec) -> Json:
        """What the table of results shows of a point."""
        thresholds = {"sigma": spec.sigma} if self.uses_suffixes else {}
        return {"lambda": None, "temperature": None, "pointer_weight": None, **thresholds}


class AdaptiveLambda(LearnedMixing):
    """One network per clustering, for all taus."""

    name = "retomaton+lambda"

    def groups(self, setup: Setup) -> Mapping[str, Sequence[WalkSpec]]:
        """Every tau of every clustering."""
        return {name: [WalkSpec(name, tau) for tau in setup.taus[name]] for name in setup.automata}

    def searched_most(self, setup: Setup, name: str) -> WalkSpec:  # noqa: ARG002 - the contract's
        """With a search at every position."""
        return WalkSpec(name, math.inf)


class SuffixLambda(LearnedMixing):
    """One network per clustering, for all taus and sigmas; it sees how long suffixes were."""

    name = "retomaton+suffix+lambda"
    uses_suffixes = True
    searching = Searching.BELOW_SIGMA

    def groups(self, setup: Setup) -> Mapping[str, Sequence[WalkSpec]]:
        """Every tau and sigma of every clustering."""
        return {
            name: [restart.by_sigma(name) for restart in setup.restarts[name]]
            for name in setup.automata
        }

    def calibration_walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """The same, and a restart at every position."""
        return restart_walks(setup)

    def searched_most(self, setup: Setup, name: str) -> WalkSpec:
        """With the least sigma and a restart at every position."""
        sigma = min(restart.sigma for restart in setup.restarts[name])
        return WalkSpec(name, math.inf, sigma=sigma)


class KnnLmLambda(LearnedMixing):
    """The same network over what searches find alone: what of the gain is the automaton's.

    It has as many candidates as RetoMaton may score.
    """

    name = "knnlm+lambda"
    baseline = KNNLM
    # Nothing is pointed to.
    pointer_weights = None

    def groups(self, setup: Setup) -> Mapping[str, Sequence[WalkSpec]]:
        """The stateless walk."""
        return {KNNLM: [stateless_walk(setup.automata[0], wide=True)]}

    def group_of(self, spec: WalkSpec) -> str:  # noqa: ARG002 - the contract's
        """There is only one."""
        return KNNLM

    def searched_most(self, setup: Setup, name: str) -> WalkSpec:  # noqa: ARG002 - the contract's
        """There is only one."""
        return stateless_walk(setup.automata[0], wide=True)

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point per fraction of searches that are dropped at random, as with `knnlm+wide`."""
        mixing, spec = self.mixing(calibrated, KNNLM), self.searched_most(setup, KNNLM)
        for fraction in setup.fractions:
            facts = {**self.shown(spec), "fraction": fraction}
            yield CurvePoint(self.name, spec, mixing, random_gate(fraction), facts, WIDE)


class SuffixAloneLambda(KnnLmLambda):
    """The same network over what suffixes find alone, without a walk and without a search."""

    name = "suffix+lambda"
    baseline = "suffix"
    uses_suffixes = True
    searching = Searching.NEVER

    def groups(self, setup: Setup) -> Mapping[str, Sequence[WalkSpec]]:
        """The stateless walk that never searches."""
        return {KNNLM: [stateless_walk(setup.automata[0], sigma=0.0)]}

    def searched_most(self, setup: Setup, name: str) -> WalkSpec:  # noqa: ARG002 - the contract's
        """There is only one."""
        return stateless_walk(setup.automata[0], sigma=0.0)

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point: all searches are saved."""
        spec = self.searched_most(setup, KNNLM)
        yield CurvePoint(self.name, spec, self.mixing(calibrated, KNNLM), facts=self.shown(spec))


@dataclass(frozen=True)
class Redraw:
    """Rows of the calibration text, of documents drawn with repetition, and a network's seed."""

    rows: NDArray[np.int64]
    seed: int


def _train(
    scores: Scores,
    specs: Sequence[WalkSpec],
    bases: Bases,
    suffixes: bool,
    redraw: Redraw | None = None,
) -> tuple[MixtureNetwork, dict[str, float]]:
    chosen = redraw or Redraw(np.arange(len(scores)), SEED)
    rows, seen, components = chosen.rows, [], []
    for spec in specs:
        walked = scores.walk(spec.label)
        seen.append(features(scores, walked, bases.plain.temperature, suffixes)[rows])
        logs = log_experts(scores, walked, bases.experts())
        components.append(logs.astype(np.float32)[rows])
    # The same positions of every walk: one that is held out is learned from nowhere.
    held = np.tile(held_out(scores.document[rows], HELD_OUT, chosen.seed), len(seen))
    return train_mixture(
        np.concatenate(seen),
        np.concatenate(components),
        held,
        begin=bases.begin(),
        seed=chosen.seed,
    )


def features(
    lm: LMFeatures, walked: WalkResult, temperature: float, suffixes: bool = False
) -> NDArray[np.float32]:
    """What is known before the token is: [rows, features]; of suffixes only if asked."""
    near = np.where(np.isfinite(walked.nearest), walked.nearest, 0.0)
    places = [walked.temperatures.index(factor * temperature) for factor in CROWDS]
    sums = walked.sums[:, places, ALL]
    crowd = np.logaddexp(sums[..., POINTED], sums[..., OTHER])
    with np.errstate(invalid="ignore"):
        share = np.exp(sums[:, 1, POINTED] - crowd[:, 1])
    columns = [
        lm.entropy,
        lm.confidence,
        # In units of the temperature: distances have those of the model's keys.
        np.log1p(np.maximum(near, 0) / temperature),
        np.log1p(walked.states),
        np.log1p(walked.candidates),
        np.log1p(walked.pointed),
        np.nan_to_num(share),
        walked.searched,
        np.log1p(walked.since),
        *np.nan_to_num(crowd, neginf=-1.0).T,
        *([walked.matched, walked.matched > 0] if suffixes else []),
    ]
    return np.stack(columns, axis=1).astype(np.float32)
