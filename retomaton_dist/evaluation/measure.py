"""Measuring: from the points of curves to rows of results, with intervals over documents."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
# A mean log-probability that changed by less than this is the same but for rounding.
UNCHANGED = 1e-6
KNNLM = "knnlm"
SUFFIXED = "retomaton+suffix"
# Whatever some point is compared with.
BASELINES = {method.baseline for method in METHODS.values()} | {"suffix", "suffix+lambda", KNNLM}


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
    """Measures points over one text of so many words, one at a time.

    Methods that others are compared with come before them, and with all their searches first.
    `duplicates` are the numbers of documents that the corpus or the calibration text has, too;
    `name_of` says what a document is called.
    """

    documents: NDArray[np.int32]
    words: int
    duplicates: frozenset[int] = frozenset()
    name_of: Callable[[int], str] = str
    baselines: dict[str, Floats] = field(default_factory=dict)

    @cached_property
    def resampling(self) -> Resampling:
        """The draws that all intervals share."""
        return Resampling.of(self.documents)

    @cached_property
    def new(self) -> NDArray[np.bool_] | None:
        """The rows of documents that are no duplicates; None if that is all, or none."""
        rows = ~np.isin(self.documents, list(self.duplicates))
        return None if rows.all() or not rows.any() else rows

    def measure(self, point: CurvePoint, scores: Scores) -> Measured:
        """Score every token as the point would; ratios are to methods that were measured before.

        `against` is to the method's own baseline, `against_knnlm` to plain kNN-LM.
        """
        walked = walked_by(point, scores)
        log_p = log_target(point.mixing, scores, walked, scores.document)
        check_log_probabilities(log_p, point.method)
        rows, searches = len(log_p), int(walked.searched.sum())
        row = {**self._described(point), "positions": rows, "searches": searches}
        row |= {"foss": 1 - searches / rows, **self._perplexities(log_p)}
        row["baseline"] = matched_baseline(point.method, row["searches"])
        for name, other in (("against", row["baseline"]), ("against_knnlm", KNNLM)):
            known = self.baselines.get(other)
            row[name] = None if known is None else self.ratio(log_p, known)
        baseline = self.baselines.get(row["baseline"])
        row["without_duplicates"] = self.without_duplicates(log_p, baseline)
        row["worse_than_lm"] = self._worse(log_p, scores.log_lm)
        if point.method in BASELINES:
            self.baselines.setdefault(point.method, log_p)
        return Measured(row, walked.without_sums(), log_p)

    def ratio(self, log_p: Floats, baseline: Floats) -> Json:
        """The perplexity's ratio to another one's, over the same documents."""
        ratio = math.exp(float(np.mean(baseline) - np.mean(log_p)))
        return {"ratio": ratio, "interval": self.resampling.ratio(log_p, baseline)}

    def without_duplicates(self, log_p: Floats, baseline: Floats | None) -> Json | None:
        """Perplexity and ratio over documents that are no duplicates; None if all are new."""
        rows = self.new
        if rows is None:
            return None
        against = None
        if baseline is not None:
            losses = baseline - log_p
            ratio = math.exp(float(losses[rows].mean()))
            against = {"ratio": ratio, "interval": self.resampling.ratio_among(losses, rows)}
        return {"perplexity": math.exp(-float(log_p[rows].mean())), "against": against}

    def _worse(self, log_p: Floats, log_lm: NDArray[np.float32]) -> Json:
        """How many documents have a higher perplexity than with the LM alone, and the worst."""
        numbers, firsts = np.unique(self.documents, return_index=True)
        lengths = np.diff(np.append(firsts, len(log_p)))
        # What is impossible for both is equal.
        change = np.zeros(len(log_p))
        np.subtract(log_lm, log_p, out=change, where=log_lm != log_p)
        losses = np.add.reduceat(change, firsts) / lengths
        worst = int(losses.argmax())
        worse = int((losses > UNCHANGED).sum())
        if not worse:
            return {"documents": 0, "worst": None, "ratio": None}
        ratio = math.exp(min(float(losses[worst]), LARGEST_LOSS))
        return {"documents": worse, "worst": self.name_of(int(numbers[worst])), "ratio": ratio}

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

    def _perplexities(self, log_p: Floats) -> Json:
        loss = -float(log_p.mean())
        # A word has so many tokens on average, and so many times the loss.
        per_word = loss * len(log_p) / self.words if self.words else math.inf
        return {
            "perplexity": math.exp(loss),
            "interval": self.resampling.interval(log_p),
            # Beyond all numbers in scripts without spaces.
            "perplexity_per_word": math.exp(per_word) if per_word < LARGEST_LOSS else None,
        }


def matched_baseline(method: str, searches: int) -> str:
    """The same mixture without the automaton: what it searches, or looks up, is found without it.

    A walk that restarts by suffixes may search or not: so may what it is compared with.
    """
    if method.startswith(SUFFIXED):
        other = "retomaton" if searches else "suffix"
        named = method.replace(SUFFIXED, other)
        return METHODS[named].baseline if searches else named
    return METHODS[method].baseline


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


def _plain(threshold: float) -> float | str:
    return threshold if math.isfinite(threshold) else "inf"
