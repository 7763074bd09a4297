"""The few numbers that a reader looks for first, read off the curves, and sentences of them.

Between two neighbouring points a curve is a straight line. Outside its points nothing is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.names import change_interval, curve_name, method_name, percent
from retomaton_dist.report.rows import ADAPTRET, KNNLM, LM, Curve, Row, curves, main_clustering

Points = Sequence[Row]
# Baselines as a sentence names them.
_WORDS = {
    "knnlm": "kNN-LM",
    "knnlm+wide": "kNN-LM of as many candidates",
    "knnlm+lambda": "kNN-LM with the same learned mixing",
}


@dataclass(frozen=True)
class ReadOff:
    """Perplexity at some FoSS, read off a curve; interpolated if it lies between two points."""

    perplexity: float
    interpolated: bool


@dataclass(frozen=True)
class Crossing:
    """Up to which FoSS a curve is at most a target.

    `kind` is "never" (no point is), "all" (even the last point is) or "at"; `foss` is the largest
    FoSS at which it still is, None if never.
    """

    kind: Literal["never", "at", "all"]
    foss: float | None


@dataclass(frozen=True)
class Target:
    """A perplexity to be reached, and which method's it is."""

    name: str
    perplexity: float


def perplexity_at(points: Points, foss: float) -> ReadOff | None:
    """Perplexity of a curve at some FoSS; None outside its points. Points rise in FoSS."""
    for row in points:
        if row.foss == foss:
            return ReadOff(row.perplexity, interpolated=False)
    for left, right in pairwise(points):
        if left.foss < foss < right.foss:
            share = (foss - left.foss) / (right.foss - left.foss)
            value = left.perplexity + share * (right.perplexity - left.perplexity)
            return ReadOff(value, interpolated=True)
    return None


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


def targets(found: Mapping[Curve, Points]) -> list[Target]:
    """What all curves are measured against: kNN-LM at FoSS 0, and the best that AdaptRet does."""
    searched = _at_foss_0(found, KNNLM.method)
    adaptive = [row.perplexity for row in found.get(ADAPTRET, [])]
    best = [Target(ADAPTRET.method, min(adaptive))] if adaptive else []
    return [searched, *best] if searched else best


def matched(found: Mapping[Curve, Points], points: Points) -> Target | None:
    """The baseline of a curve at FoSS 0, if it ran: it differs by the automaton alone."""
    return _at_foss_0(found, points[0].baseline) if points and points[0].baseline else None


def _at_foss_0(found: Mapping[Curve, Points], method: str) -> Target | None:
    level = perplexity_at(found.get(Curve(method, None), []), 0.0)
    return Target(method, level.perplexity) if level else None


def result_sentences(evaluation: EvaluationFiles) -> list[str]:
    """What came out, in plain sentences; nothing is said about methods that did not run."""
    found = curves(evaluation.rows)
    ours = Curve("retomaton", main_clustering(evaluation.rows))
    learned = Curve("retomaton+lambda", ours.clustering)
    said = [
        *_levels(found, ours),
        *(_change(found, curve) for curve in (ours, learned)),
        _still_equal(found, ours),
        _without_search(found, ours),
    ]
    return [f"{sentence}." for sentence in said if sentence]


def _levels(found: Mapping[Curve, Points], ours: Curve) -> list[str]:
    """The perplexities themselves, all at FoSS 0 but for the LM's, which has none."""
    levels = [
        f"{curve_name(curve)} has perplexity {level.perplexity:,.2f}"
        for curve in (ours, KNNLM)
        if (level := perplexity_at(found.get(curve, []), 0.0))
    ]
    alone = [f"The LM alone has perplexity {row.perplexity:,.2f}" for row in found.get(LM, [])[:1]]
    return [*([" and ".join(levels) + " at FoSS 0"] if levels else []), *alone]


def _change(found: Mapping[Curve, Points], curve: Curve) -> str:
    row = next((row for row in found.get(curve, []) if row.foss == 0), None)
    compared = "" if row is None else _compared(found, row)
    return compared and f"{method_name(curve.method)} is {compared}"


def _without_search(found: Mapping[Curve, Points], ours: Curve) -> str:
    """What restarts by suffixes alone come to."""
    curve = Curve("retomaton+suffix", ours.clustering)
    row = next((row for row in found.get(curve, []) if row.searches == 0), None)
    if row is None:
        return ""
    text = f"{curve_name(curve)} has {row.perplexity:,.2f} without any search"
    compared = _compared(found, row)
    return f"{text}, {compared}" if compared else text


def _compared(found: Mapping[Curve, Points], row: Row) -> str:
    """The gain over the matched baseline; without that, over plain kNN-LM, and that it is not."""
    aim = matched(found, [row])
    if aim is not None and row.against is not None:
        bounds = change_interval(row.against_interval)
        margin = f"; 95 % interval of the change: {bounds}" if row.against_interval else ""
        return f"{_side(row.against)} {_WORDS[aim.name]} ({aim.perplexity:,.2f}){margin}"
    if row.against_knnlm is None:
        return ""
    return f"{_side(row.against_knnlm)} kNN-LM (its matched baseline, {row.baseline}, did not run)"


def _side(ratio: float) -> str:
    return f"{percent(abs(1 - ratio))} {'below' if ratio < 1 else 'above'}"


def _still_equal(found: Mapping[Curve, Points], ours: Curve) -> str:
    aim = matched(found, found.get(ours, [])) or _at_foss_0(found, KNNLM.method)
    if aim is None or ours not in found:
        return ""
    crossing, whose = largest_foss(found[ours], aim.perplexity), _WORDS[aim.name]
    if crossing.foss is None:
        return f"At no FoSS does {method_name(ours.method)} reach the perplexity of {whose}"
    saved = f"with {percent(crossing.foss)} of the searches saved"
    if crossing.kind == "all":
        return f"{method_name(ours.method)} is still no worse than {whose} {saved}, its last point"
    return f"{method_name(ours.method)} equals {whose} {saved}"
