"""Measuring: from the points of curves to rows of results, with intervals over documents."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.bootstrap import Resampling
from retomaton_dist.engine.mixture import Floats
from retomaton_dist.engine.online import log_target
from retomaton_dist.engine.plausible import check_log_probabilities
from retomaton_dist.engine.scores import Scores, steps_since
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.methods.method import CurvePoint
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.storage.canonical import Json

LARGEST_LOSS = 700.0
KNNLM = "knnlm"
BASELINES = {method.baseline for method in METHODS.values()}


@dataclass(frozen=True)
class Measured:
    """A point that was measured: its row of results, and what it is made of."""

    row: Json
    walked: WalkResult
    log_p: Floats

    @property
    def searched(self) -> NDArray[np.bool_]:
        """Where it searched."""
        return self.walked.searched


@dataclass(frozen=True)
class Measurer:
    """Measures points over one text of so many words."""

    documents: NDArray[np.int32]
    words: int

    @cached_property
    def resampling(self) -> Resampling:
        """The draws that all intervals share."""
        return Resampling.of(self.documents)

    def measure(
        self, point: CurvePoint, scores: Scores, baselines: Mapping[str, Floats]
    ) -> Measured:
        """Score every token as the point would; ratios are taken to `baselines`, if they ran.

        `against` is to the method's own baseline, `against_knnlm` to plain kNN-LM.
        """
        walked = walked_by(point, scores)
        log_p = log_target(point.mixing, scores, walked, scores.document)
        check_log_probabilities(log_p, point.method)
        row = {**self._described(point), **self._counted(point, walked.searched)}
        row |= self._perplexities(log_p)
        row["baseline"] = METHODS[point.method].baseline
        for name, other in (("against", row["baseline"]), ("against_knnlm", KNNLM)):
            known = baselines.get(other)
            row[name] = None if known is None else self._ratio(log_p, known)
        return Measured(row, walked.without_sums(), log_p)

    def _described(self, point: CurvePoint) -> Json:
        spec, facts = point.spec, point.facts
        walking = spec is not None and not spec.stateless
        return {
            "method": point.method,
            "clustering": spec.automaton if spec and walking else None,
            "tau": _plain(spec.tau) if spec and walking else None,
            "sigma": _plain(facts["sigma"]) if "sigma" in facts else None,
            "share": facts.get("share"),
            "walk": spec.label if spec else None,
            "fraction": facts.get("fraction"),
            "lambda": facts.get("lambda"),
            "temperature": facts.get("temperature"),
            "pointer_weight": facts.get("pointer_weight"),
        }

    def _counted(self, point: CurvePoint, searched: NDArray[np.bool_]) -> Json:
        rows, searches = len(searched), int(searched.sum())
        counted = rows - _after_last_search(self.documents, searched)
        walking = point.spec is not None and not point.spec.stateless
        return {
            "positions": rows,
            "searches": searches,
            "foss": 1 - searches / rows,
            "reference_foss": 1 - searches / counted if walking and counted else None,
        }

    def _perplexities(self, log_p: Floats) -> Json:
        loss = -float(log_p.mean())
        interval = self.resampling.interval(log_p)
        # A word has so many tokens on average, and so many times the loss.
        tokens = len(log_p) / self.words if self.words else math.inf
        per_word = interval and [_exponential(tokens * math.log(bound)) for bound in interval]
        return {
            "perplexity": math.exp(loss),
            "interval": interval,
            "perplexity_per_word": _exponential(tokens * loss),
            "interval_per_word": None if not per_word or None in per_word else per_word,
        }

    def _ratio(self, log_p: Floats, baseline: Floats) -> Json:
        ratio = math.exp(float(np.mean(baseline) - np.mean(log_p)))
        return {"ratio": ratio, "interval": self.resampling.ratio(log_p, baseline)}


def measure_all(
    points: Iterable[tuple[CurvePoint, Scores]], words: int
) -> Iterator[tuple[CurvePoint, Scores, Measured]]:
    """Measure points in order, one at a time, so that scores need not be in memory together.

    Methods that others are compared with come before them, and with all their searches first.
    """
    measurer: Measurer | None = None
    baselines: dict[str, Floats] = {}
    for point, scores in points:
        measurer = measurer or Measurer(scores.document, words)
        measured = measurer.measure(point, scores, baselines)
        if point.method in BASELINES:
            baselines.setdefault(point.method, measured.log_p)
        yield point, scores, measured


def walked_by(point: CurvePoint, scores: Scores) -> WalkResult:
    """What the point's walk came to; where its gate is closed there is nothing."""
    nothing = WalkResult.empty((len(scores),), scores.temperatures)
    if point.spec is None:
        return nothing
    walked = scores.walk(point.spec.label)
    if point.gate is None:
        return walked
    gate = point.gate(scores.whole(), scores.document, scores.position)
    rows = np.flatnonzero(gate)
    nothing.put(rows, walked.rows(rows))
    return replace(nothing, since=steps_since(scores.document, nothing.restarted))


def _after_last_search(documents: NDArray[np.int32], searched: NDArray[np.bool_]) -> int:
    """Rows that no search of their document follows: the authors' code does not count them."""
    ends = np.flatnonzero(np.append(documents[1:] != documents[:-1], True))
    last = np.maximum.accumulate(np.where(searched, np.arange(len(documents)), -1))[ends]
    starts = np.concatenate([[-1], ends[:-1]])
    return int((ends - np.maximum(last, starts)).sum())


def _exponential(loss: float) -> float | None:
    """Perplexity of a loss; None if it is beyond all numbers, as in scripts without spaces."""
    return math.exp(loss) if loss < LARGEST_LOSS else None


def _plain(threshold: float) -> float | str:
    return threshold if math.isfinite(threshold) else "inf"
