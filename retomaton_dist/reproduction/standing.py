"""Where a curve stands at some FoSS, how sure that is, and what two of them say of each other.

Bounds are 95 % intervals over documents of the ratio to kNN-LM with every search made: far narrower
than those of perplexities, since what makes a document hard cancels. Two curves are compared by
whether their bounds overlap, which is stricter than a test of their difference would be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from retomaton_dist.report.rows import Interval, Row

Verdict = Literal[
    "holds",
    "within chance",
    "does not hold",
    "holds; no interval",
    "does not hold; no interval",
    "cannot be told: weak LM",
]


@dataclass(frozen=True)
class Standing:
    """A perplexity or a ratio of two, and bounds of its ratio to kNN-LM's, if they are known."""

    value: float
    bounds: Interval | None = None

    def over(self, other: "Standing") -> "Standing":
        """The ratio of two, with the widest bounds that it can have."""
        bounds = None
        if self.bounds and other.bounds:
            bounds = self.bounds[0] / other.bounds[1], self.bounds[1] / other.bounds[0]
        return Standing(self.value / other.value, bounds)

    def below(self, other: "Standing") -> Verdict:
        """Whether this is lower than the other."""
        holds = self.value < other.value
        if not self.bounds or not other.bounds:
            return "holds; no interval" if holds else "does not hold; no interval"
        if self.bounds[1] < other.bounds[0]:
            return "holds"
        return "does not hold" if self.bounds[0] > other.bounds[1] else "within chance"


ONE = Standing(1.0, (1.0, 1.0))


def standing_at(points: Sequence[Row], foss: float) -> Standing | None:
    """Of a curve; between two points it is straight, outside them nothing is said."""
    for row in points:
        if row.foss == foss:
            return standing(row)
    for left, right in pairwise(points):
        if left.foss < foss < right.foss:
            share = (foss - left.foss) / (right.foss - left.foss)
            return _between(standing(left), standing(right), share)
    return None


def standing(row: Row) -> Standing:
    """Of one point. What kNN-LM's ratio to itself is, no interval needs to say."""
    if row.method == "knnlm" and row.foss == 0:
        return Standing(row.perplexity, (1.0, 1.0) if row.interval else None)
    return Standing(row.perplexity, row.knnlm_interval)


def _between(left: Standing, right: Standing, share: float) -> Standing:
    value = _mean(left.value, right.value, share)
    if not left.bounds or not right.bounds:
        return Standing(value)
    low, high = (_mean(*pair, share=share) for pair in zip(left.bounds, right.bounds, strict=True))
    return Standing(value, (low, high))


def _mean(left: float, right: float, share: float) -> float:
    return left + share * (right - left)
