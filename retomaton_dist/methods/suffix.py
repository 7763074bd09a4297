"""Methods that look up suffixes: alone (`suffix`), or where a walk of the automaton runs thin."""

import math
from collections.abc import Iterator, Sequence

from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkSpec, format_threshold, stateless_walk
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.constant import (
    ConstantMixing,
    Constants,
    as_facts,
    find_constants,
    from_facts,
)
from retomaton_dist.methods.knnlm import WIDE
from retomaton_dist.methods.method import (
    Calibrated,
    CurvePoint,
    Method,
    Restart,
    Searching,
    Setup,
)
from retomaton_dist.storage.canonical import Json


class Suffix(Method):
    """The candidates are what follows the longest suffix, at every position: no walk, no search."""

    name = "suffix"
    uses_suffixes = True
    searching = Searching.NEVER

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """The stateless walk that never searches."""
        return (stateless_walk(setup.automata[0], sigma=0.0),)

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Lambda and temperature."""
        return Calibrated(as_facts(find_constants(scores, self.walks(setup)[0], setup)))

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point: all searches are saved."""
        mixing = ConstantMixing(from_facts(calibrated.facts))
        yield CurvePoint(self.name, self.walks(setup)[0], mixing, facts=calibrated.facts)


class RestartBySuffix(Method):
    """Walks the automaton; where the walk runs thin, looks up suffixes, and searches below sigma.

    Constants are found for each clustering and sigma with a restart at every position, then stay
    along all taus.
    """

    name = "retomaton+suffix"
    baseline = WIDE
    uses_suffixes = True
    searching = Searching.BELOW_SIGMA

    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Every tau and sigma of every clustering."""
        return [spec for spec, _ in self._specs(setup)]

    def calibration_walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """The same, which thresholds are chosen from, and a restart at every position."""
        return restart_walks(setup)

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Lambda and temperature by clustering and sigma."""
        facts: Json = {}
        for name in setup.automata:
            found = sigma_constants(scores, name, setup)
            facts[name] = {format_threshold(s): as_facts(item) for s, item in found.items()}
        return Calibrated(facts)

    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """One point per clustering, tau and sigma."""
        for spec, restart in self._specs(setup):
            constants = calibrated.facts[spec.automaton][format_threshold(restart.sigma)]
            mixing = ConstantMixing(from_facts(constants))
            facts = {**constants, **self._shown(restart)}
            yield CurvePoint(self.name, spec, mixing, facts=facts)

    def _specs(self, setup: Setup) -> Iterator[tuple[WalkSpec, Restart]]:
        for name in setup.automata:
            for restart in setup.restarts[name]:
                yield restart.by_sigma(name), restart

    def _shown(self, restart: Restart) -> Json:
        return {"sigma": restart.sigma}


class RestartAtRandom(RestartBySuffix):
    """Searches for as many restarts as sigma would, drawn at random: what the sigma is worth."""

    name = "retomaton+random"
    searching = Searching.ANYHOW

    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """As with sigma; how many restarts search is found out on the same text."""
        if scores is None:
            raise BadInput(f"{self.name} is set on held-out text: name some with --calibrate-on")
        return super().calibrate(scores, setup)

    def _specs(self, setup: Setup) -> Iterator[tuple[WalkSpec, Restart]]:
        for name in setup.automata:
            for restart in setup.restarts[name]:
                yield restart.at_random(name), restart

    def _shown(self, restart: Restart) -> Json:
        return {"share": restart.share}


def restart_walks(setup: Setup) -> list[WalkSpec]:
    """All restarts by sigma, and each sigma with a restart at every position."""
    return [
        WalkSpec(name, tau, sigma=restart.sigma)
        for name in setup.automata
        for restart in setup.restarts[name]
        for tau in (restart.tau, math.inf)
    ]


def sigma_constants(scores: Scores | None, automaton: str, setup: Setup) -> dict[float, Constants]:
    """The best constants for every sigma, with a restart at every position."""
    sigmas = sorted({restart.sigma for restart in setup.restarts[automaton]})
    return {
        sigma: find_constants(scores, WalkSpec(automaton, math.inf, sigma=sigma), setup)
        for sigma in sigmas
    }
