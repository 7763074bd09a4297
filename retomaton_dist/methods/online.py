"""Methods whose weights follow the text: `lm+ngram`, `retomaton+suffix+ngram+cache`, ...

A name is a walk (or `lm`: none), then what is mixed in beside it. They need no calibration: weights
begin alike in every text, and temperatures come from the store's own distances. With `+lambda` a
network that is learned on held-out text is one more source, trusted as far as the text bears it
out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.mixture import (
    Candidates,
    Expert,
    Floats,
    LMFeatures,
    TextExpert,
    log_experts,
    without_candidates,
)
from retomaton_dist.engine.online import OnlineMixing, Step
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkResult, WalkSpec
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.adaptive import HELD_OUT, features
from retomaton_dist.methods.held_out import held_out
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Setup, arrays_below
from retomaton_dist.methods.mixture_network import SEED, MixtureNetwork, train_mixture
from retomaton_dist.storage.canonical import Json

# What a candidate's distance is compared with, in distances between two entries drawn at random.
TEMPERATURE = 2.0**-5
POINTER_WEIGHT = 8.0
# By what weights the sources of a step may be mixed in.
CACHE_WEIGHTS, NGRAM_WEIGHTS, CANDIDATE_WEIGHTS = (
    (0.3, 0.6, 1.0),
    (0.1, 0.3, 0.6, 0.9),
    (0.1, 0.3, 0.6),
)
LAMBDA = "+lambda"


class Online(Method):
    """The walk of another method, mixed with models of text alone by weights that follow the text.

    `baseline` is the method with one source less.
    """

    learns = False

    def __init__(self, walk: Method, text: tuple[TextExpert, ...], baseline: str) -> None:
        self._walk, self.text = walk, text
        base = walk.name.removesuffix("+wide")
        self.name = "+".join([base, *(expert.value for expert in text)])
        self.baseline = baseline
        self.uses_suffixes, self.searching = walk.uses_suffixes, walk.searching

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Those of the other method."""
        return self._walk.walks(setup)

    def calibration_walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """None: nothing is learned."""
        del setup
        return ()

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Only the temperature, which is the store's."""
        del scores
        return Calibrated(self._temperature(setup))

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """Those of the other method."""
        given = replace(setup, weight=0.5, temperature=1.0)
        for point in self._walk.points(setup, self._walk.calibrate(None, given)):
            constants = dict.fromkeys(("lambda", "temperature", "pointer_weight"))
            yield replace(
                point,
                method=self.name,
                mixing=self.mixing(calibrated, point.spec),
                facts={**point.facts, **constants},
                searches_as=point.searches_as or self._walk.name,
            )

    def mixing(self, calibrated: Calibrated, spec: WalkSpec | None) -> OnlineMixing:
        """The steps: the document, then the corpus's n-grams, then the walk's candidates."""
        weights = {TextExpert.CACHE: CACHE_WEIGHTS, TextExpert.NGRAM: NGRAM_WEIGHTS}
        steps = [Step((expert,), weights[expert]) for expert in weights if expert in self.text]
        if spec is not None:
            degree = calibrated.facts["temperature"]
            pointed = 1.0 if spec.stateless else POINTER_WEIGHT
            experts = (Candidates(degree / 2, pointed), Candidates(degree * 2, pointed))
            steps.append(Step(experts, CANDIDATE_WEIGHTS))
        return OnlineMixing(tuple(steps))

    def _temperature(self, setup: Setup) -> Json:
        if not setup.automata or next(iter(self.walks(setup)), None) is None:
            return {}
        # As the grid that calibration texts are scored for.
        unit = float(f"{setup.distance():.3g}")
        return {"temperature": setup.temperature or TEMPERATURE * unit}


@dataclass(frozen=True)
class LearnedShares:
    """Shares as a network gives them, from what is known of the LM, the walk and the text."""

    network: MixtureNetwork
    experts: tuple[Expert, ...]
    temperature: float | None

    def shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:
        """As the network trusts them."""
        known = text_features(lm, walked, self.experts, self.temperature)
        shares = np.exp(self.network.log_shares(known))
        return without_candidates(shares, self.experts, walked)


class OnlineLambda(Online):
    """The same with a learned network as the last source: one for all walks of an automaton."""

    learns = True

    def __init__(self, walk: Method, text: tuple[TextExpert, ...], baseline: str) -> None:
        super().__init__(walk, text, baseline)
        self.name += LAMBDA

    def calibration_walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """All: networks learn from each."""
        return self.walks(setup)

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Train a network per automaton on all its walks over the calibration text."""
        if scores is None:
            raise BadInput(f"{self.name} learns from held-out text: name some with --calibrate-on")
        facts = self._temperature(setup)
        groups: dict[str, list[WalkSpec | None]] = {}
        walks: Sequence[WalkSpec | None] = self.walks(setup) or (None,)
        for spec in walks:
            groups.setdefault(_group(spec), []).append(spec)
        arrays: dict[str, NDArray[Any]] = {}
        networks: Json = {}
        for name, specs in groups.items():
            network, networks[name] = self._train(scores, specs, facts.get("temperature"))
            arrays |= {f"{name}.{key}": array for key, array in network.arrays().items()}
        return Calibrated({**facts, "networks": networks}, arrays)

    def mixing(self, calibrated: Calibrated, spec: WalkSpec | None) -> OnlineMixing:
        """The same steps, and the network."""
        steps = super().mixing(calibrated, spec).steps
        network = MixtureNetwork.of(arrays_below(calibrated.arrays, f"{_group(spec)}."))
        degree = calibrated.facts.get("temperature")
        return OnlineMixing(steps, LearnedShares(network, self._experts(spec, degree), degree))

    def _experts(self, spec: WalkSpec | None, degree: float | None) -> tuple[Expert, ...]:
        """What a network mixes: text alone, and candidates at several temperatures."""
        if spec is None or degree is None:
            return self.text
        weights = (1.0,) if spec.stateless else (1.0, POINTER_WEIGHT)
        factors = (0.5, 1.0, 2.0)
        return (*self.text, *(Candidates(degree * f, w) for w in weights for f in factors))

    def _train(
        self, scores: Scores, specs: Sequence[WalkSpec | None], degree: float | None
    ) -> tuple[MixtureNetwork, Mapping[str, float]]:
        seen, logs = [], []
        for spec in specs:
            walked = WalkResult.empty((len(scores),), (1.0,))
            if spec is not None:
                walked = scores.walk(spec.label)
            experts = self._experts(spec, degree)
            seen.append(text_features(scores, walked, experts, degree))
            logs.append(log_experts(scores, walked, experts).astype(np.float32))
        held = np.tile(held_out(scores.document, HELD_OUT, SEED), len(seen))
        return train_mixture(np.concatenate(seen), np.concatenate(logs), held)


def _group(spec: WalkSpec | None) -> str:
    return "lm" if spec is None else "stateless" if spec.stateless else spec.automaton


def text_features(
    lm: LMFeatures, walked: WalkResult, experts: Sequence[Expert], temperature: float | None
) -> NDArray[np.float32]:
    """What is known before the token is, also of contexts that the experts have seen before."""
    assert lm.text is not None, "what asks models of text was scored with them"
    if temperature is None:
        known = np.stack([lm.entropy, lm.confidence], axis=1)
    else:
        known = features(lm, walked, temperature, suffixes=True)
    text = lm.text
    columns: list[NDArray[Any]] = []
    if TextExpert.NGRAM in experts:
        columns.append(text.ngram_matched)
    if TextExpert.CACHE in experts:
        columns += [text.cache_matched, np.log1p(text.cache_matched), text.escape]
    return np.concatenate([known, np.stack(columns, axis=1)], axis=1).astype(np.float32)
