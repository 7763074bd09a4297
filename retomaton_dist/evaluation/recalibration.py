"""How much results depend on the calibration text: constants fitted anew on draws of its documents.

Intervals over the evaluated documents take the constants as given. Here every draw fits its own,
on calibration documents drawn with repetition, and measures the text with them: all of it, which
tells what calibration alone does, and a draw of its documents, which tells both. A draw is the same
for all points, so that ratios pair. Networks would have to be trained anew: they are left out.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.bootstrap import LEVEL, Floats, Resampling, between
from retomaton_dist.automaton.sums import log_automaton
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkSpec
from retomaton_dist.evaluation.shortlist import ShortlistedPoint
from retomaton_dist.methods.constant import (
    LARGEST_LOG_RATIO,
    ConstantMixing,
    Constants,
    log_mixture,
)
from retomaton_dist.storage.canonical import Json

WEIGHTS = np.arange(1, 100) / 100
# Another one than that of the evaluated documents' draws.
SEED = 1


@dataclass(frozen=True)
class Refitted:
    """The constants that draws settled on: `chosen` says for each draw which of them."""

    constants: list[Constants]
    chosen: NDArray[np.int64]


@dataclass(frozen=True)
class Redrawn:
    """Mean loss of a point for each draw: over the whole text, and over a draw of it."""

    listed: ShortlistedPoint
    refitted: Refitted
    whole: Floats
    drawn: Floats

    def describe(self, baseline: "Redrawn | None") -> Json:
        """Intervals of constants, of the perplexity and of its ratio to the baseline's."""
        beside = baseline and baseline.listed.point.method
        constants = [self.refitted.constants[place] for place in self.refitted.chosen]
        degrees, counts = np.unique([one.temperature for one in constants], return_counts=True)
        bounds = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        return {
            **self.listed.facts,
            "lambda": np.quantile([one.weight for one in constants], bounds).tolist(),
            "temperatures": [
                [float(degree), float(count / counts.sum())]
                for degree, count in zip(degrees, counts, strict=True)
            ],
            "perplexity": self.listed.measured.row["perplexity"],
            "over_calibration": between(self.whole),
            "over_both": between(self.drawn),
            "baseline": beside,
            "ratio_over_calibration": baseline and between(self.whole - baseline.whole),
            "ratio_over_both": baseline and between(self.drawn - baseline.drawn),
        }


def recalibrate(points: Iterable[ShortlistedPoint], calibration: Scores) -> list[Json]:
    """Describe every point with constants; ratios are to the fairest baseline among them.

    Temperatures are among those that both texts were scored for.
    """
    fitting = Resampling.of(calibration.document, SEED)
    if not len(fitting.draws):
        return []
    measured: dict[str, list[Redrawn]] = {}
    for listed in points:
        found = _redrawn(listed, calibration, fitting)
        if found is not None:
            measured.setdefault(listed.point.method, []).append(found)
    described = []
    for one in (one for redrawn in measured.values() for one in redrawn):
        ran = (measured[name][0] for name in one.listed.baselines if name in measured)
        described.append(one.describe(next(ran, None)))
    return described


def _redrawn(listed: ShortlistedPoint, calibration: Scores, fitting: Resampling) -> Redrawn | None:
    spec, mixing, scores = listed.point.spec, listed.point.mixing, listed.scores
    if spec is None or not isinstance(mixing, ConstantMixing):
        return None
    shared = sorted({*scores.temperatures} & {*calibration.temperatures})
    text = Resampling.of(scores.document)
    label = _fitted_on(spec)
    if label not in calibration.walks or not shared or not len(text.draws):
        return None
    pointer_weight = mixing.constants.pointer_weight
    refitted = refit(calibration, label, shared, pointer_weight, fitting)
    sums = scores.walk(spec.label).sums
    totals = np.stack(
        [
            text.totals(log_mixture(sums, scores.temperatures, scores.log_lm, constants))
            for constants in refitted.constants
        ]
    )
    whole = -totals.sum(axis=1)[refitted.chosen] / text.counts.sum()
    drawn = np.einsum("bd,bd->b", text.draws, totals[refitted.chosen])
    return Redrawn(listed, refitted, whole, -drawn / (text.draws @ text.counts))


def _fitted_on(spec: WalkSpec) -> str:
    """The walk that a point's constants are found for: with a restart at every position."""
    return replace(spec, tau=math.inf, share=1.0).label


def refit(
    calibration: Scores,
    label: str,
    temperatures: Sequence[float],
    pointer_weight: float,
    fitting: Resampling,
) -> Refitted:
    """The likeliest lambda, of hundredths, and temperature of every draw of documents."""
    sums, log_lm = calibration.walk(label).sums, calibration.log_lm
    likelihoods = []
    for degree in temperatures:
        column = sums[:, calibration.temperatures.index(degree)].astype(np.float64)
        log_auto = log_automaton(column, pointer_weight)
        difference = np.where(np.isnan(log_auto), 0.0, log_auto - log_lm)
        gain = np.expm1(np.minimum(difference, LARGEST_LOG_RATIO))
        totals = np.stack([fitting.totals(np.log1p(weight * gain)) for weight in WEIGHTS], axis=1)
        likelihoods.append(fitting.draws @ totals)
    best = np.concatenate(likelihoods, axis=1).argmax(axis=1)
    kinds, chosen = np.unique(best, return_inverse=True)
    constants = [
        Constants(
            float(WEIGHTS[kind % len(WEIGHTS)]),
            temperatures[kind // len(WEIGHTS)],
            pointer_weight,
        )
        for kind in kinds.tolist()
    ]
    return Refitted(constants, chosen)
