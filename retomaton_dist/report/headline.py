"""What came out, in a few sentences, and the numbers that are read off curves for them.

Between two neighbouring points a curve is a straight line. Outside its points nothing is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from retomaton_dist.analysis.bootstrap import why_no_intervals
from retomaton_dist.evaluation.ladder import AUTOMATON
from retomaton_dist.methods.online import LAMBDA
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.names import change, change_interval, method_name, number, percent
from retomaton_dist.report.rows import LM, Row, main_curves
from retomaton_dist.storage.canonical import Json

Points = Sequence[Row]
# The first of these that ran is what the evaluation is about.
_MIXTURES = (
    "retomaton+ngram+cache", "retomaton+suffix+ngram+cache", "lm+ngram+cache", "lm+cache",
    "retomaton", "retomaton+suffix", "knnlm+wide", "knnlm", "suffix",
)  # fmt: skip


@dataclass(frozen=True)
class Crossing:
    """Up to which FoSS a curve is at most a target.

    `kind` is "never" (no point is), "all" (even the last point is) or "at"; `foss` is the largest
    FoSS at which it still is, None if never.
    """

    kind: Literal["never", "at", "all"]
    foss: float | None


def largest_foss(points: Points, target: float) -> Crossing:
    """The largest FoSS at which a curve is still <= target. Points rise in FoSS."""
    if not points or min(row.perplexity for row in points) > target:
        return Crossing("never", None)
    if points[-1].perplexity <= target:
        return Crossing("all", points[-1].foss)
    left, right = next(
        (left, right) for left, right in reversed([*pairwise(points)]) if left.perplexity <= target
    )
    share = (target - left.perplexity) / (right.perplexity - left.perplexity)
    return Crossing("at", left.foss + share * (right.foss - left.foss))


def result_sentences(evaluation: EvaluationFiles) -> list[str]:
    """What came out, in plain sentences; every claim has the size of the store beside it."""
    found = main_curves(evaluation.rows)
    methods = [name + more for name in _MIXTURES for more in (LAMBDA, "")]
    top = next((found[name][0] for name in methods if name in found), None)
    claims = [*_level(found, top), *_automaton(evaluation, found), *_replaced(found)]
    said = [f"{claim}; {_size(evaluation, method)}." for claim, method in claims]
    said += _worse(top, evaluation.results["documents"])
    note = why_no_intervals(evaluation.results["documents"])
    return [*said, note] if note else said


Claim = tuple[str, str]
"""A sentence, and the method that it is about."""


def _size(evaluation: EvaluationFiles, method: str) -> str:
    """How many entries the store has, and how many tokens the method was calibrated on."""
    size: Json = evaluation.settings.get("size") or {}
    entries, tokens = size.get("entries"), size.get("calibration_tokens")
    known = METHODS.get(method)
    fitted = f"{tokens:,} tokens of calibration text" if tokens else "constants given"
    if known is not None and not known.learns:
        fitted = "no calibration"
    return f"store of {entries:,} entries, {fitted}" if entries else "size of the store not noted"


def _level(found: Mapping[str, Points], top: Row | None) -> list[Claim]:
    """How much better than the LM all of it is together."""
    alone = next((row.perplexity for row in found.get(LM.method, ())), None)
    if top is None:
        return [(f"The LM alone has perplexity {number(alone)}", LM.method)] if alone else []
    level = f"{method_name(top.method)} has perplexity {number(top.perplexity)}"
    if alone:
        level += f", {_side(top.perplexity / alone)} the LM alone ({number(alone)})"
    return [(level, top.method)]


def _automaton(evaluation: EvaluationFiles, found: Mapping[str, Points]) -> list[Claim]:
    """What the automaton itself adds: against the same mixture without it."""
    ladders = evaluation.results.get("ladders") or []
    claims = [
        _own(ladder["title"], cell, **cell["change"])
        for ladder in ladders
        for cell in (ladder["lines"][-1]["online"], ladder["lines"][-1]["learned"])
        if ladder["lines"][-1]["name"] == AUTOMATON and cell and cell["change"]
    ]
    if claims:
        return claims
    for method in ("retomaton", "retomaton+lambda"):
        row = next((row for row in found.get(method, ()) if row.foss == 0), None)
        if row is not None and row.against is None:
            missing = f"its matched baseline, {row.baseline}, did not run"
            claims.append((f"Nothing is claimed for {method_name(method)}: {missing}", method))
        elif row is not None and row.against is not None:
            facts = row.against, row.against_interval
            claims.append(_own("With every search made", vars(row), *facts))
    return claims


def _own(where: str, point: Json, ratio: float, interval: Sequence[float] | None) -> Claim:
    method = point["method"]
    levels = f"from {number(point['perplexity'] / ratio)} to {number(point['perplexity'])}"
    changed = f"the automaton itself changes the perplexity by {_with_bounds(ratio, interval)}"
    return f"{where}{_mixing(method)}, {changed}, {levels}", method


def _replaced(found: Mapping[str, Points]) -> list[Claim]:
    """How many searches the automaton replaces, what that costs, and up to where it is free."""
    ours = [name for name in ("retomaton+ngram+cache", "retomaton") if name in found][:1]
    claims = []
    for method in [one + more for one in ours for more in ("", LAMBDA)]:
        row = found[method][-1] if method in found else None
        if row is None or row.against is None or not row.foss:
            continue
        crossing = largest_foss(found[method], row.perplexity / row.against)
        reached = crossing.foss is not None
        free = f"no worse up to {percent(crossing.foss)}" if reached else "never as good"
        cost = f"{_with_bounds(row.against, row.against_interval)} against a search at every token"
        text = f"The automaton{_mixing(method)} replaces {percent(row.foss)} of the searches at"
        claims.append((f"{text} {cost}; it is {free}", method))
    return claims


def _mixing(method: str) -> str:
    return " (learned mixing)" if method.endswith(LAMBDA) else ""


def _with_bounds(ratio: float, bounds: Sequence[float] | None) -> str:
    return change(ratio) + (f" (95 % interval {change_interval(bounds)})" if bounds else "")


def _worse(top: Row | None, documents: int) -> list[str]:
    if top is None or top.worse_documents is None:
        return []
    name, lm = method_name(top.method), "than with the LM alone"
    if not top.worse_documents:
        return [f"No document is worse with {name} {lm}."]
    worst = f"the worst, {top.worst_document}, by {change(top.worst_ratio)}"
    counted = f"{top.worse_documents:,.0f} of {documents:,} documents"
    return [f"With {name}, {counted} are worse {lm}; {worst}."]


def _side(ratio: float) -> str:
    return f"{percent(abs(1 - ratio))} {'below' if ratio < 1 else 'above'}"
