"""Curves of perplexity against saved searches, the paper's and ours, and how sure they are.

Bounds are 95 % intervals over documents of the ratio to kNN-LM with every search made: far narrower
than those of perplexities, since what makes a document hard cancels. Two curves are compared by
whether their bounds overlap, which is stricter than a test of their difference would be.
"""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from retomaton_dist.storage import canonical

PAPER: dict[str, Any] = tomllib.loads((Path(__file__).parent / "paper.toml").read_text())

Curve = tuple[str, str]
"""A method and its clustering, empty if it has none."""


@dataclass(frozen=True)
class Level:
    """A perplexity or a ratio of two, with bounds of its ratio to kNN-LM's if they are known."""

    value: float
    bounds: tuple[float, float] | None = None

    def over(self, other: "Level") -> "Level":
        """The ratio of two, with the widest bounds that it can have."""
        bounds = None
        if self.bounds and other.bounds:
            bounds = self.bounds[0] / other.bounds[1], self.bounds[1] / other.bounds[0]
        return Level(self.value / other.value, bounds)

    def below(self, other: "Level") -> str:
        """The verdict on whether this is lower than the other."""
        if not self.bounds or not other.bounds:
            return f"{'holds' if self.value < other.value else 'does not hold'}; no interval"
        if self.bounds[1] < other.bounds[0]:
            return "holds"
        return "does not hold" if self.bounds[0] > other.bounds[1] else "within chance"

    def change(self) -> str:
        """A ratio in per cent; bounds without a width are left out."""
        shown = f"{100 * (self.value - 1):+.1f} %"
        if self.bounds is None or self.bounds[0] == self.bounds[1]:
            return shown
        low, high = (100 * (bound - 1) for bound in self.bounds)
        return f"{shown} ({low:+.1f} to {high:+.1f})"


@dataclass(frozen=True)
class PaperPoint:
    """A point of a curve; `seconds` if it was timed."""

    foss: float
    level: Level
    seconds: Mapping[str, float] | None = None


class Curves(dict[Curve, list[PaperPoint]]):
    """Points by curve and by rising FoSS, the best of each."""

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Curves":
        """Those of an evaluation's rows; infinite perplexities are left out."""
        curves = cls({(row["method"], row["clustering"] or ""): [] for row in rows})
        for row in sorted(rows, key=lambda row: (row["foss"], float(row["perplexity"]))):
            points = curves[row["method"], row["clustering"] or ""]
            if math.isfinite(float(row["perplexity"])) and (
                not points or points[-1].foss < row["foss"]
            ):
                points.append(PaperPoint(row["foss"], _level(row), row.get("seconds")))
        return cls({curve: points for curve, points in curves.items() if points})

    @classmethod
    def published(cls, name: str) -> "Curves":
        """The paper's of an evaluation; of the stronger LM's, those of the other."""
        listed = PAPER["published"][name.removesuffix("-strong")]["curves"]
        return cls(
            {
                (key.partition(" ")[0], key.partition(" ")[2]): [
                    PaperPoint(foss, Level(perplexity)) for foss, perplexity in points
                ]
                for key, points in listed.items()
            }
        )

    def find(self, place: str) -> Curve | None:
        """The curve `METHOD CLUSTERING` of paper.toml; None if the clustering is not there."""
        method, _, clustering = place.partition(" ")
        named = [name for _, name in sorted(self, key=lambda one: one[0] != "retomaton") if name]
        kmeans = sorted((n for n in {*named} if n.startswith("kmeans")), key=per_state)
        choices: dict[str, Callable[[], str]] = {
            "main": lambda: next((name for name in named if name != "none"), named[0]),
            "usual": lambda: min(kmeans, key=lambda name: abs(per_state(name) - 100)),
            "coarsest": lambda: kmeans[-1],
            "finest": lambda: kmeans[0],
        }
        if clustering in choices and not (named if clustering == "main" else kmeans):
            return None
        return method, choices[clustering]() if clustering in choices else clustering

    def at(self, place: str) -> Level | None:
        """The level at `METHOD CLUSTERING @ FOSS`: straight between points, None outside them."""
        name, _, foss = place.partition(" @ ")
        curve = self.find(name)
        return level_at(self.get(curve, ()) if curve else (), float(foss))

    def gain(self, place: str, other: str) -> Level | None:
        """The ratio of the levels at two places, if there are both."""
        here, there = self.at(place), self.at(other)
        return here.over(there) if here and there else None

    def last_below(self, place: str, target: float) -> tuple[float | None, bool] | None:
        """The largest FoSS at which a curve is at most the target, and whether it ends there."""
        points = self.get(self.find(place) or ("", ""))
        if not points:
            return None
        if points[-1].level.value <= target:
            return points[-1].foss, True
        for left, right in reversed([*pairwise(points)]):
            if left.level.value <= target:
                share = (target - left.level.value) / (right.level.value - left.level.value)
                return left.foss + share * (right.foss - left.foss), False
        return None, False


@dataclass(frozen=True)
class Study:
    """A finished evaluation: its JSON files, and its curves."""

    name: str
    settings: Mapping[str, Any]
    results: Mapping[str, Any]
    analysis: Mapping[str, Any]
    curves: Curves

    @classmethod
    def read(cls, folder: Path) -> "Study":
        """Read the folder of an evaluation."""
        files = {
            name: canonical.read(folder / f"{name}.json", "evaluate again")
            for name in ("settings", "results", "analysis")
            if (folder / f"{name}.json").exists()
        }
        results, analysis = files["results"], files.get("analysis", {})
        curves = Curves.of_rows(results["rows"])
        return cls(folder.name, files["settings"], results, analysis, curves)

    def weak_lm(self) -> tuple[float, float] | None:
        """Perplexities of a look-up of suffixes, which uses no key, and of kNN-LM if higher."""
        lookup = [point.level.value for point in self.curves.get(("suffix", ""), ())]
        searched = self.curves.at("knnlm @ 0")
        if not lookup or searched is None or min(lookup) >= searched.value:
            return None
        return min(lookup), searched.value

    def saved_times(self) -> dict[Curve, list[tuple[float, float, float]]]:
        """By curve of RetoMaton: FoSS, and what is saved of all time and of that beyond the LM."""
        base = next((p for p in self.curves.get(("knnlm", ""), ()) if p.foss == 0), None)
        if base is None or not base.seconds:
            return {}
        whole, beyond = base.seconds["total"], base.seconds["total"] - base.seconds["lm"]
        return {
            curve: [
                (p.foss, 1 - s["total"] / whole, 1 - (s["total"] - s["lm"]) / beyond)
                for p in points
                if (s := p.seconds)
            ]
            for curve, points in self.curves.items()
            if curve[0] == "retomaton"
        }


def level_at(points: Sequence[PaperPoint], foss: float) -> Level | None:
    """The level of a curve; between two points it is straight, outside them nothing is said."""
    for point in points:
        if point.foss == foss:
            return point.level
    for left, right in pairwise(points):
        if left.foss < foss < right.foss:
            share, ends = (foss - left.foss) / (right.foss - left.foss), (left.level, right.level)
            numbers = [(one.value, *(one.bounds or ())) for one in ends]
            value, *bounds = (a + share * (b - a) for a, b in zip(*numbers, strict=False))
            return Level(value, (bounds[0], bounds[1]) if bounds else None)
    return None


def per_state(clustering: str) -> int:
    """Entries per state of k-means, by its name; without a number it is the usual one."""
    return int(clustering.removeprefix("kmeans-")) if clustering != "kmeans" else 100


def _level(row: Mapping[str, Any]) -> Level:
    """Of one point. kNN-LM's ratio to itself is 1."""
    bounds = (row.get("against_knnlm") or {}).get("interval")
    if row["method"] == "knnlm" and row["foss"] == 0:
        bounds = (1.0, 1.0) if row.get("interval") else None
    return Level(float(row["perplexity"]), (bounds[0], bounds[1]) if bounds else None)
