"""The few numbers that a reader looks for first, taken from the curves by interpolation.

Between two neighbouring points a curve is a straight line. Outside its points nothing is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from retomaton_dist.report.rows import Curve, Row

Points = Sequence[Row]


@dataclass(frozen=True)
class Reading:
    """Perplexity at some FoSS, read off a curve; `row` is the point itself if there is one."""

    perplexity: float
    row: Row | None

    @property
    def interpolated(self) -> bool:
        """Whether it lies between two points."""
        return self.row is None


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


def perplexity_at(points: Points, foss: float) -> Reading | None:
    """Perplexity of a curve at some FoSS; None outside its points. Points rise in FoSS."""
    for row in points:
        if row.foss == foss:
            return Reading(row.perplexity, row)
    for left, right in pairwise(points):
        if left.foss < foss < right.foss:
            share = (foss - left.foss) / (right.foss - left.foss)
            value = left.perplexity + share * (right.perplexity - left.perplexity)
            return Reading(value, None)
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


def targets(curves: Mapping[Curve, Points]) -> list[Target]:
    """What RetoMaton is measured against: kNN-LM at FoSS 0, and the best that AdaptRet does."""
    found: list[Target] = []
    searched = perplexity_at(curves.get(("knnlm", None), []), 0.0)
    if searched:
        found.append(Target("knnlm", searched.perplexity))
    adaptive = [row.perplexity for row in curves.get(("adaptret", None), [])]
    if adaptive:
        found.append(Target("adaptret", min(adaptive)))
    return found
