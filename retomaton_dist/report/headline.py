"""The few numbers that a reader looks for first, read off the curves, and the sentence of them.

Between two neighbouring points a curve is a straight line. Outside its points nothing is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.names import curve_name, percent
from retomaton_dist.report.rows import ADAPTRET, KNNLM, LM, Curve, Row, curves, main_clustering

Points = Sequence[Row]


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
    """A perplexity to be reached, and whose it is."""

    name: Literal["knnlm", "adaptret"]
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
    """What RetoMaton is measured against: kNN-LM at FoSS 0, and the best that AdaptRet does."""
    aims: list[Target] = []
    searched = perplexity_at(found.get(KNNLM, []), 0.0)
    if searched:
        aims.append(Target("knnlm", searched.perplexity))
    adaptive = [row.perplexity for row in found.get(ADAPTRET, [])]
    if adaptive:
        aims.append(Target("adaptret", min(adaptive)))
    return aims


def result_sentence(evaluation: EvaluationFiles) -> str:
    """What came out, in one plain sentence; nothing is said about methods that did not run."""
    found = curves(evaluation.rows)
    ours = Curve("retomaton", main_clustering(evaluation.rows))
    results = evaluation.results
    many = "" if results["documents"] == 1 else "s"
    text = f"On {results['positions']:,} positions of {results['documents']:,} document{many}"
    parts = [
        _levels(found, ours),
        _change(found.get(ours, [])),
        _still_equal(found, ours),
        _without_search(found, ours),
    ]
    return f"{text}, {'; '.join(part for part in parts if part)}."


def _levels(found: Mapping[Curve, Points], ours: Curve) -> str:
    """The perplexities themselves, all at FoSS 0 but for the LM's, which has none."""
    levels = {
        curve: level.perplexity
        for curve in (ours, KNNLM)
        if (level := perplexity_at(found.get(curve, []), 0.0))
    }
    named = [f"{curve_name(curve)} has perplexity {level:,.2f}" for curve, level in levels.items()]
    searching = " and ".join(named) + " at FoSS 0" if named else ""
    alone = [f"LM alone has {row.perplexity:,.2f}" for row in found.get(LM, [])[:1]]
    return ", the ".join([searching, *alone]) if named else "".join(f"the {one}" for one in alone)


def _change(points: Points) -> str:
    row = next((row for row in points if row.foss == 0 and row.against_knnlm is not None), None)
    if row is None or row.against_knnlm is None:
        return ""
    side = "below" if row.against_knnlm < 1 else "above"
    return f"RetoMaton is {percent(abs(1 - row.against_knnlm))} {side} kNN-LM{_margin(row)}"


def _without_search(found: Mapping[Curve, Points], ours: Curve) -> str:
    """What restarts by suffixes alone come to."""
    curve = Curve("retomaton+suffix", ours.clustering)
    row = next((row for row in found.get(curve, []) if row.searches == 0), None)
    if row is None:
        return ""
    text = f"{curve_name(curve)} has {row.perplexity:,.2f} without any search"
    if row.against_knnlm is None:
        return text
    side = "below" if row.against_knnlm < 1 else "above"
    return f"{text}, {percent(abs(1 - row.against_knnlm))} {side} kNN-LM{_margin(row)}"


def _margin(row: Row) -> str:
    if row.against_interval is None:
        return ""
    low, high = (100 * (bound - 1) for bound in row.against_interval)
    return f" (95 % interval of the change: {low:+.1f} % to {high:+.1f} %)"


def _still_equal(found: Mapping[Curve, Points], ours: Curve) -> str:
    target = next((one.perplexity for one in targets(found) if one.name == "knnlm"), None)
    if target is None or ours not in found:
        return ""
    crossing = largest_foss(found[ours], target)
    if crossing.foss is None:
        return "at no FoSS does it reach kNN-LM's perplexity"
    saved = percent(crossing.foss)
    if crossing.kind == "all":
        return (
            f"it is still no worse than kNN-LM with {saved} of the searches saved, its last point"
        )
    return f"it equals kNN-LM with {saved} of the searches saved"
