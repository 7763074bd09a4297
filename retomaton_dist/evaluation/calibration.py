"""Calibrating all methods on held-out text, once; what was found is kept with the evaluation.

Thresholds are chosen there too: tau by the fraction of saved searches that it has, pairs of tau
and sigma by that and the likelihood of the text.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from retomaton_dist.errors import DamagedStore
from retomaton_dist.methods.method import Calibrated, Method, Restart, Setup, arrays_below
from retomaton_dist.methods.mixture import log_mixture
from retomaton_dist.methods.suffix import sigma_constants
from retomaton_dist.scores.scores import Scores
from retomaton_dist.scores.walks import WalkSpec
from storage import canonical, files
from storage.canonical import Json

FACTS, ARRAYS = "calibration.json", "calibration.safetensors"
_REMEDY = "delete it and run the same command again"
# Thresholds walked on the calibration text: enough to interpolate between.
COARSE = (1.0, 4.0, 16.0, 64.0, 256.0, math.inf)
POINTS = 8
# The same for walks that may restart by suffixes: pairs of these are chosen from.
COARSE_RESTARTS = (1.0, 16.0, math.inf)
SIGMAS = (0.0, 1.0, 2.0, 4.0, math.inf)

Found = Mapping[str, Calibrated]


def calibrate(
    out: Path, methods: Sequence[Method], scores: Scores | None, setup: Setup, inputs: Json
) -> Found:
    """Calibrate, or read what an earlier run with the same inputs found.

    What is found anew is kept at once, but not if a text was scored before: its results are made
    with what was found then, until `keep` is called after the text was scored for this.
    """
    known = read(out, inputs)
    if known is not None:
        return known
    found = {method.name: method.calibrate(scores, setup) for method in methods}
    if not (out / "text").exists():
        keep(out, found, inputs)
    return found


def read(out: Path, inputs: Json | None = None) -> Found | None:
    """What was found before; None if nothing was, or if it was from other `inputs`."""
    if not (out / FACTS).exists():
        return None
    facts = canonical.read(out / FACTS, _REMEDY)
    if inputs is not None and canonical.content_hash(facts["inputs"]) != canonical.content_hash(
        inputs
    ):
        return None
    try:
        arrays = load_file(out / ARRAYS)
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedStore(f"{out / ARRAYS} cannot be read: {error}; {_REMEDY}") from error
    return {
        name: Calibrated(item, arrays_below(arrays, f"{name}:"))
        for name, item in facts["methods"].items()
    }


def keep(out: Path, found: Found, inputs: Json) -> None:
    """Keep what was found from these inputs, in place of what was found before."""
    arrays = {
        f"{name}:{key}": np.ascontiguousarray(array)
        for name, calibrated in found.items()
        for key, array in calibrated.arrays.items()
    }
    files.write(out / ARRAYS, save(arrays))
    facts = {name: calibrated.facts for name, calibrated in found.items()}
    canonical.write(out / FACTS, {"methods": facts, "inputs": inputs})


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
    if target <= 0:
        return math.inf
    finite = [tau for tau in taus if math.isfinite(tau)]
    largest = max(finite, default=1.0)
    logs = [math.log2(tau if math.isfinite(tau) else 4 * largest) for tau in taus]
    # A larger tau searches at least about as often; small exceptions must not confuse.
    falling = np.minimum.accumulate(np.asarray(foss, np.float64))
    log = np.interp(target, falling[::-1], np.asarray(logs)[::-1])
    return float(max(1, round(2.0 ** float(log))))


@dataclass(frozen=True)
class TriedRestart:
    """A pair of tau and sigma, and what it came to on the calibration text."""

    restart: Restart
    foss: float
    log_p: float


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


def restart_for(target: float, tried: Sequence[TriedRestart]) -> Restart:
    """The likeliest pair that saves as much; if none does, one that saves most."""
    most = max(item.foss for item in tried)
    enough = [item for item in tried if item.foss >= min(target, most)]
    return max(enough, key=lambda item: item.log_p).restart
