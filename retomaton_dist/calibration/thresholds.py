"""What thresholds came to on the calibration text, and choosing among them.

Taus are chosen by the fraction of saved searches that they have there, pairs of tau and sigma by
that and the likelihood of the text.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkSpec
from retomaton_dist.methods.constant import log_mixture
from retomaton_dist.methods.method import Restart, Setup
from retomaton_dist.methods.suffix import sigma_constants
from retomaton_dist.storage.canonical import Json

# Thresholds walked on the calibration text: enough to interpolate between.
COARSE = (1.0, 4.0, 16.0, 64.0, 256.0, math.inf)
POINTS = 8
DIGITS = 12
# The same for walks that may restart by suffixes: pairs of these are chosen from.
COARSE_RESTARTS = (1.0, 16.0, math.inf)
SIGMAS = (0.0, 1.0, 2.0, 4.0, math.inf)


@dataclass(frozen=True)
class TauCurve:
    """Rising taus and the FoSS of each."""

    taus: tuple[float, ...]
    foss: tuple[float, ...]

    @property
    def most(self) -> float:
        """The largest FoSS that was seen."""
        return max(self.foss)


@dataclass(frozen=True)
class TriedRestart:
    """A pair of tau and sigma, and what it came to on the calibration text."""

    restart: Restart
    foss: float
    log_p: float


@dataclass(frozen=True)
class Thresholds:
    """By automaton: the curve of walks that search to restart, and the pairs that were tried.

    What no method asked for is not there.
    """

    curves: Mapping[str, TauCurve]
    tried: Mapping[str, Sequence[TriedRestart]]

    @classmethod
    def measured(cls, scores: Scores, setup: Setup, *, restarts: bool) -> "Thresholds":
        """Measure all thresholds of the setup that were walked; pairs only if asked."""
        curves = {}
        for name in setup.automata:
            walked = [t for t in setup.taus[name] if WalkSpec(name, t).label in scores.walks]
            if walked:
                curves[name] = TauCurve(tuple(walked), tuple(measured_foss(scores, name, walked)))
        pairs = setup.automata if restarts else ()
        return cls(curves, {name: try_restarts(scores, name, setup) for name in pairs})

    def as_facts(self) -> Json:
        """The same as JSON; thresholds are text because they may be infinite."""
        return {
            "curves": {
                name: [[str(tau), foss] for tau, foss in zip(curve.taus, curve.foss, strict=True)]
                for name, curve in self.curves.items()
            },
            "restarts": {
                name: [[*map(str, one.restart), one.foss, one.log_p] for one in tried]
                for name, tried in self.tried.items()
            },
        }

    @classmethod
    def from_facts(cls, facts: Json) -> "Thresholds":
        """What `as_facts` made."""
        curves = {
            name: TauCurve(*zip(*((float(tau), foss) for tau, foss in rows), strict=True))
            for name, rows in facts["curves"].items()
        }
        tried = {
            name: [TriedRestart(Restart(*map(float, row[:3])), *row[3:]) for row in rows]
            for name, rows in facts["restarts"].items()
        }
        return cls(curves, tried)


def setup_facts(setup: Setup) -> Json:
    """The thresholds of a setup as JSON."""
    return {
        "automata": list(setup.automata),
        "taus": {name: [str(tau) for tau in taus] for name, taus in setup.taus.items()},
        "restarts": {
            name: [[str(number) for number in restart] for restart in restarts]
            for name, restarts in setup.restarts.items()
        },
    }


def setup_from_facts(facts: Json) -> Setup:
    """What `setup_facts` made."""
    return Setup(
        tuple(facts["automata"]),
        {name: tuple(map(float, taus)) for name, taus in facts["taus"].items()},
        {
            name: tuple(Restart(*map(float, restart)) for restart in restarts)
            for name, restarts in facts.get("restarts", {}).items()
        },
    )


def measured_foss(scores: Scores, automaton: str, taus: Sequence[float]) -> list[float]:
    """FoSS of each tau."""
    labels = [WalkSpec(automaton, tau).label for tau in taus]
    return [1 - float(scores.searched(label).mean()) for label in labels]


def spread_taus(taus: Sequence[float], foss: Sequence[float]) -> tuple[float, ...]:
    """About eight thresholds, 1 and infinity among them, whose FoSS are evenly spread."""
    wanted = np.linspace(0, max(foss), POINTS)[1:-1]
    found = {tau_for(float(target), taus, foss) for target in wanted}
    return tuple(sorted({1.0, math.inf, *found}))


def tau_for(target: float, taus: Sequence[float], foss: Sequence[float]) -> float:
    """The threshold with this FoSS, by interpolation in log tau; 1 if none has as much."""
    # Fractions of positions: what lies closer together than this is the same.
    target = round(target, DIGITS)
    if target <= 0:
        return math.inf
    finite = [tau for tau in taus if math.isfinite(tau)]
    largest = max(finite, default=1.0)
    logs = [math.log2(tau if math.isfinite(tau) else 4 * largest) for tau in taus]
    # A larger tau searches at least about as often; small exceptions must not confuse.
    falling = np.minimum.accumulate(np.round(np.asarray(foss, np.float64), DIGITS))
    log = np.interp(target, falling[::-1], np.asarray(logs)[::-1])
    return float(max(1, round(2.0 ** float(log))))


def try_restarts(scores: Scores, automaton: str, setup: Setup) -> list[TriedRestart]:
    """Measure every pair of the setup, with the constants that its sigma has."""
    constants = sigma_constants(scores, automaton, setup)
    tried = []
    for tau, sigma, _ in setup.restarts[automaton]:
        walked = scores.walk(WalkSpec(automaton, tau, sigma=sigma).label)
        thin = int((walked.states < tau).sum())
        share = float(walked.searched.sum()) / thin if thin else 0.0
        foss = 1 - float(walked.searched.mean())
        logs = log_mixture(walked.sums, scores.temperatures, scores.log_lm, constants[sigma])
        tried.append(TriedRestart(Restart(tau, sigma, share), foss, float(logs.mean())))
    return tried


def unbeaten_restarts(tried: Sequence[TriedRestart]) -> list[Restart]:
    """At most eight pairs that no other beats in FoSS and likelihood, from the largest FoSS."""
    kept: list[TriedRestart] = []
    for item in sorted(tried, key=lambda item: (-item.foss, -item.log_p)):
        if not kept or item.log_p > kept[-1].log_p:
            kept.append(item)
    places = np.linspace(0, len(kept) - 1, min(POINTS, len(kept))).round().astype(int)
    return [kept[place].restart for place in places]


def share_of(tau: float, sigma: float, tried: Sequence[TriedRestart]) -> float:
    """How many of the restarts searched with this sigma and the nearest tau that was tried."""
    alike = [one.restart for one in tried if one.restart.sigma == sigma]
    nearest = min(alike, key=lambda one: abs(_log(one.tau) - _log(tau)))
    return nearest.share


def _log(tau: float) -> float:
    return math.log2(tau) if math.isfinite(tau) else 64.0


def restart_for(target: float, tried: Sequence[TriedRestart]) -> Restart:
    """The likeliest pair that saves as much; if none does, one that saves most."""
    most = max(item.foss for item in tried)
    enough = [item for item in tried if item.foss >= min(target, most)]
    return max(enough, key=lambda item: item.log_p).restart
