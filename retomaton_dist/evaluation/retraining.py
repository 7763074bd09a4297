"""How much learned mixing depends on the calibration text and on luck: networks trained anew.

Every time on calibration documents drawn with repetition and from another seed; the constants that
networks vary stay. All methods learn from the same draws, so that ratios pair.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from retomaton_dist.engine.online import log_target
from retomaton_dist.engine.scores import Scores
from retomaton_dist.evaluation.measure import walked_by
from retomaton_dist.evaluation.shortlist import ShortlistedPoint
from retomaton_dist.methods.adaptive import LearnedMixing, Redraw
from retomaton_dist.methods.method import Calibrated, Setup
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.runtime.progress import say
from retomaton_dist.storage.canonical import Json

# Another one than that of the draws that constants are fitted on.
SEED = 2


def retrain(
    points: Sequence[ShortlistedPoint],
    calibration: Scores,
    setup: Setup,
    found: Mapping[str, Calibrated],
    times: int,
) -> list[Json]:
    """Describe every point with a network: its perplexity with each of `times` networks.

    `setup` has the walks that `found` was learned from. Ratios are to the baseline's point with
    the network of the same draw, if that has one.
    """
    losses: dict[int, list[float]] = {}
    for number, redraw in enumerate(redraws(calibration, times)):
        for method in {one.point.method: None for one in points}:
            learned = METHODS[method]
            if not isinstance(learned, LearnedMixing):
                continue
            say(f"report: training the network of {method} anew, {number + 1} of {times}")
            chosen = {id(one): one for one in points if one.point.method == method}
            for key, loss in _losses(
                learned, chosen, calibration, setup, found[method], redraw
            ).items():
                losses.setdefault(key, []).append(loss)
    return [_described(one, points, losses) for one in points if id(one) in losses]


def redraws(calibration: Scores, times: int) -> list[Redraw]:
    """Rows of documents drawn with repetition; of a single document all rows, every time."""
    _, group = np.unique(calibration.document, return_inverse=True)
    number, random, drawn = int(group.max()) + 1, np.random.default_rng(SEED), []
    for seed in range(SEED, SEED + times):
        counts = np.bincount(random.integers(0, number, number), minlength=number)
        drawn.append(Redraw(np.repeat(np.arange(len(group)), counts[group]), seed))
    return drawn


def _losses(
    method: LearnedMixing,
    points: Mapping[int, ShortlistedPoint],
    calibration: Scores,
    setup: Setup,
    calibrated: Calibrated,
    redraw: Redraw,
) -> dict[int, float]:
    """Mean loss of a method's points with networks that learned from this draw."""
    found = {}
    for name, specs in method.groups(setup).items():
        wanted = {
            key: one
            for key, one in points.items()
            if one.point.spec is not None and method.group_of(one.point.spec) == name
        }
        if not wanted:
            continue
        mixing = method.retrain(calibrated, calibration, specs, redraw)
        for key, one in wanted.items():
            walked = walked_by(one.point, one.scores)
            log_p = log_target(mixing, one.scores, walked, one.scores.document)
            found[key] = -float(log_p.mean())
    return found


def _described(
    listed: ShortlistedPoint,
    points: Sequence[ShortlistedPoint],
    losses: Mapping[int, Sequence[float]],
) -> Json:
    own = losses[id(listed)]
    fairest = listed.baselines[0]
    beside = [one for one in points if one.point.method == fairest and id(one) in losses]
    others = losses[id(beside[0])] if beside else None
    ratios = [math.exp(a - b) for a, b in zip(own, others, strict=True)] if others else None
    return {
        **listed.facts,
        "perplexity": listed.measured.row["perplexity"],
        "perplexities": [math.exp(loss) for loss in own],
        "baseline": fairest if others else None,
        "ratios": ratios,
    }
