"""`retomaton+lambda`: how far to trust the automaton is learned, token by token.

A small network looks at what a walk knows before the token is seen - distances, numbers of states
and candidates, steps since the search, the LM's entropy and confidence - and mixes the LM with a
few versions of p_auto: cooler, warmer, and with heavier pointers. It learns from the cached scores
of the calibration text alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.summing import ALL, OTHER, POINTED, log_automaton
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.constant import as_facts, find_constants, from_facts
from retomaton_dist.methods.held_out import held_out
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Setup, arrays_below
from retomaton_dist.methods.mixture import Constants, Floats
from retomaton_dist.methods.mixture_network import SEED, MixtureNetwork, train_mixture
from retomaton_dist.methods.retomaton import POINTER_WEIGHTS
from retomaton_dist.scores.scores import Scores
from retomaton_dist.scores.walks import Walked, WalkSpec
from storage.canonical import Json

# Share of the calibration text that tells when a network has learned enough.
HELD_OUT = 0.15
LEAST_SHARE = 0.02
# Factors of the calibrated temperature: how many candidates are about as near as the nearest.
CROWDS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Bases:
    """The constants of `retomaton+pw` and of `retomaton`, which versions of p_auto vary."""

    weighed: Constants
    plain: Constants

    def versions(self) -> list[tuple[float, float]]:
        """Temperature and pointer weight of each version; the first is that of `retomaton+pw`."""
        weighed, plain = self.weighed, self.plain
        return [
            *((weighed.temperature * factor, weighed.pointer_weight) for factor in (1.0, 0.5)),
            *((plain.temperature * factor, plain.pointer_weight) for factor in (1.0, 0.5, 2.0)),
        ]

    def begin(self) -> list[float]:
        """Shares of the LM and of each version that are those of `retomaton+pw`, almost."""
        weight = self.weighed.weight
        return [1 - weight, weight, *[LEAST_SHARE] * (len(self.versions()) - 1)]


@dataclass(frozen=True)
class AdaptiveMixing:
    """p = sum of learned shares of p_lm and of versions of p_auto."""

    network: MixtureNetwork
    bases: Bases

    def __call__(self, scores: Scores, walked: Walked) -> Floats:
        """Log-probability of every token."""
        shares = self.network.log_shares(features(scores, walked, self.bases.plain.temperature))
        logs: Floats = shares + versions(scores, walked, self.bases)
        mixed: Floats = np.logaddexp.reduce(logs, axis=1)
        return mixed


class AdaptiveLambda(Method):
    """One network per clustering, for all taus."""

    name = "retomaton+lambda"

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Every tau of every clustering."""
        return [WalkSpec(name, tau) for name in setup.automata for tau in setup.taus[name]]

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Train a network per clustering on all its walks over the calibration text."""
        if scores is None:
            raise BadInput(f"{self.name} learns from held-out text: name some with --calibrate-on")
        facts: Json = {}
        arrays: dict[str, NDArray[Any]] = {}
        for name in setup.automata:
            spec = WalkSpec(name, math.inf)
            bases = Bases(
                find_constants(scores, spec, setup, POINTER_WEIGHTS),
                find_constants(scores, spec, setup),
            )
            network, learned = _train(scores, name, setup, bases)
            begun = {"weighed": as_facts(bases.weighed), "plain": as_facts(bases.plain)}
            facts[name] = {**begun, **learned}
            arrays |= {f"{name}.{key}": array for key, array in network.arrays().items()}
        return Calibrated(facts, arrays)

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point per clustering and tau."""
        for name in setup.automata:
            network = MixtureNetwork.of(arrays_below(calibrated.arrays, f"{name}."))
            found = calibrated.facts[name]
            bases = Bases(from_facts(found["weighed"]), from_facts(found["plain"]))
            mixing = AdaptiveMixing(network, bases)
            facts = {"lambda": None, "temperature": None, "pointer_weight": None}
            for tau in setup.taus[name]:
                yield CurvePoint(self.name, WalkSpec(name, tau), mixing, facts=facts)


def _train(
    scores: Scores, name: str, setup: Setup, bases: Bases
) -> tuple[MixtureNetwork, dict[str, float]]:
    seen, components = [], []
    for tau in setup.taus[name]:
        walked = scores.walk(WalkSpec(name, tau).label)
        seen.append(features(scores, walked, bases.plain.temperature))
        components.append(versions(scores, walked, bases))
    # The same positions of every walk: one that is held out is learned from nowhere.
    held = np.tile(held_out(scores.document, HELD_OUT, SEED), len(seen))
    return train_mixture(
        np.concatenate(seen), np.concatenate(components), held, begin=bases.begin()
    )


def features(scores: Scores, walked: Walked, temperature: float) -> NDArray[np.float32]:
    """What is known before the token is: [rows, features]."""
    near = np.where(np.isfinite(walked.nearest), walked.nearest, 0.0)
    places = [scores.temperatures.index(factor * temperature) for factor in CROWDS]
    sums = walked.sums[:, places, ALL]
    crowd = np.logaddexp(sums[..., POINTED], sums[..., OTHER])
    with np.errstate(invalid="ignore"):
        share = np.exp(sums[:, 1, POINTED] - crowd[:, 1])
    columns = [
        scores.entropy,
        scores.confidence,
        np.log1p(np.maximum(near, 0)),
        np.log1p(walked.states),
        np.log1p(walked.candidates),
        np.log1p(walked.pointed),
        np.nan_to_num(share),
        walked.searched,
        np.log1p(steps_since_search(scores.document, walked.searched)),
        *np.nan_to_num(crowd, neginf=-1.0).T,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def versions(scores: Scores, walked: Walked, bases: Bases) -> NDArray[np.float32]:
    """Log-probability of the token under p_lm and each version of p_auto: [rows, 1 + versions].

    Without candidates, every version is p_lm.
    """
    columns = [scores.log_lm.astype(np.float64)]
    for temperature, pointer_weight in bases.versions():
        sums = walked.sums[:, scores.temperatures.index(temperature)].astype(np.float64)
        log_auto = log_automaton(sums, pointer_weight)
        columns.append(np.where(np.isnan(log_auto), scores.log_lm, log_auto))
    return np.stack(columns, axis=1).astype(np.float32)


def steps_since_search(
    documents: NDArray[np.int32], searched: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Steps since the last search of the same document; 0 where it searches.

    Rows are in the order of the text. A document's first rows count from its start.
    """
    places = np.arange(len(documents))
    starts = np.concatenate([[True], documents[1:] != documents[:-1]])[: len(documents)]
    last = np.maximum.accumulate(np.where(searched | starts, places, 0))
    steps: NDArray[np.int64] = places - last
    return steps
