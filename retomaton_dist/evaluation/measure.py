"""Measuring: from the points of curves to rows of results, with intervals over documents."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.methods.method import CurvePoint
from retomaton_dist.methods.mixture import Floats
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.scores.scores import Scores
from retomaton_dist.scores.walks import Walked
from storage.canonical import Json

LARGEST_LOSS = 700.0
KNNLM = "knnlm"
BASELINES = {method.baseline for method in METHODS.values()}
# Of the bootstrap: draws of documents, level of intervals, and the most places that are drawn from.
DRAWS, LEVEL, MOST_GROUPS = 1000, 0.95, 10_000


@dataclass(frozen=True)
class Measured:
    """A point that was measured: its row of results, and what it is made of."""

    row: Json
    searched: NDArray[np.bool_]
    log_p: Floats


@dataclass(frozen=True)
class Measurer:
    """Measures points over one text of so many words."""

    documents: NDArray[np.int32]
    words: int

    @cached_property
    def resampling(self) -> "Resampling":
        """The draws that all intervals share."""
        return Resampling.of(self.documents)

    def measure(
        self, point: CurvePoint, scores: Scores, baselines: Mapping[str, Floats]
    ) -> Measured:
        """Score every token as the point would; ratios are taken to `baselines`, if they ran.

        `against` is to the method's own baseline, `against_knnlm` to plain kNN-LM.
        """
        walked = _walked(point, scores)
        log_p = point.mixing(scores, walked)
        row = {**self._described(point), **self._counted(point, walked.searched)}
        row |= self._perplexities(log_p)
        row["baseline"] = METHODS[point.method].baseline
        for name, other in (("against", row["baseline"]), ("against_knnlm", KNNLM)):
            known = baselines.get(other)
            row[name] = None if known is None else self._ratio(log_p, known)
        return Measured(row, walked.searched, log_p)

    def _described(self, point: CurvePoint) -> Json:
        spec, facts = point.spec, point.facts
        walking = spec is not None and not spec.forgetful
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
        walking = point.spec is not None and not point.spec.forgetful
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


def _walked(point: CurvePoint, scores: Scores) -> Walked:
    """What the point's walk came to; where its gate is closed there is nothing."""
    if point.spec is None:
        return Walked.empty((len(scores),), len(scores.temperatures))
    walked = scores.walk(point.spec.label)
    if point.gate is None:
        return walked
    gate = point.gate(scores.reading, scores.document, scores.position)
    nothing = Walked.empty((len(scores),), len(scores.temperatures))
    masked = {
        name: np.where(gate.reshape(-1, *[1] * (column.ndim - 1)), column, getattr(nothing, name))
        for name, column in vars(walked).items()
    }
    return replace(walked, **masked)


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


@dataclass(frozen=True)
class Resampling:
    """How often each document is in each draw: the same draws for all methods, so that they pair.

    A text of one document has no intervals.
    """

    counts: Floats
    draws: NDArray[np.float32]

    @classmethod
    def of(cls, documents: NDArray[np.int32], seed: int = 0) -> "Resampling":
        """Draw documents with repetition; `documents` is the document of every row, in order."""
        _, sizes = np.unique(documents, return_counts=True)
        # Neighbours share a place where there are very many, so that draws stay small.
        groups = np.arange(len(sizes)) * min(len(sizes), MOST_GROUPS) // len(sizes)
        counts = np.bincount(groups, sizes).astype(np.float64)
        number, random = len(counts), np.random.default_rng(seed)
        draws = np.zeros((DRAWS if number > 1 else 0, number), np.float32)
        for draw in draws:
            draw[:] = np.bincount(random.integers(0, number, number), minlength=number)
        return cls(counts, draws)

    def totals(self, rows: Floats) -> Floats:
        """Sums of rows by document."""
        ends = np.cumsum(self.counts).astype(np.int64)
        return np.add.reduceat(rows, np.concatenate([[0], ends[:-1]]))

    def interval(self, log_p: Floats) -> tuple[float, float] | None:
        """Interval of exp(-mean log p)."""
        return self._between(self._means(log_p))

    def ratio(self, log_p: Floats, other: Floats) -> tuple[float, float] | None:
        """Interval of the ratio of two perplexities over the same draws."""
        return self._between(self._means(log_p) - self._means(other))

    def _means(self, log_p: Floats) -> Floats:
        found: Floats = -(self.draws @ self.totals(log_p)) / (self.draws @ self.counts)
        return found

    def _between(self, logs: Floats) -> tuple[float, float] | None:
        if not len(logs):
            return None
        low, high = np.exp(np.quantile(logs, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
        return float(low), float(high)
