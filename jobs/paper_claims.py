"""The paper's claims, each with its number there, ours, and whether it holds here.

What cannot be read off our points is left out, and so is nothing else: what does not hold here is
listed like what does. Bounds are 95 % intervals over documents of the ratio to kNN-LM with every
search made: far narrower than those of perplexities, since what makes a document hard cancels. Two
curves are compared by whether their bounds overlap, which is stricter than a test of their
difference would be.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from retomaton_dist.storage import canonical

PAPER: dict[str, Any] = tomllib.loads((Path(__file__).parent / "paper.toml").read_text())
COMPARED = ("in-domain", "adaptation", "adaptation-strong", "fine-tuned")
NOT_THERE, BOTH, WEAK = "not measured", "both texts", "cannot be told: weak LM"
# Saved time less FoSS may vary by so much and still count as a constant.
STEADY = 0.1

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


Studies = Mapping[str, Study]


@dataclass(frozen=True)
class PaperFinding:
    """A claim, what the paper and we have for it, and whether it holds with us."""

    study: str
    claim: str
    paper: str
    ours: str
    verdict: str


def find(studies: Studies) -> list[PaperFinding]:
    """Whatever of the paper's claims the evaluations can tell, in the paper's order.

    What pointers gain over keys that say less than the last few tokens is no finding about
    RetoMaton: with such an LM the numbers are shown, and no verdict.
    """
    found = [one for name in COMPARED for one in _claims(studies, name)]
    found += _between_texts(studies)
    found += [one for name in ("ablation-wiki", "ablation-law") for one in _claims(studies, name)]
    # What one evaluation of a store tells of its keys is true of all.
    stores = {study.settings.get("store") for study in studies.values() if study.weak_lm()}
    weak = {name for name, study in studies.items() if study.settings.get("store") in stores}
    gains_weak = weak & {"in-domain", "adaptation"}
    found = [
        replace(one, verdict=WEAK)
        if one.study in weak or (one.study == BOTH and "gains" in one.claim and gains_weak)
        else one
        for one in found
    ]
    return [*found, *_of_time(studies)]


def _claims(studies: Studies, name: str) -> Iterator[PaperFinding]:
    if name not in studies:
        return
    paper, ours = Curves.published(name), studies[name].curves
    for claim in PAPER["claims"]:
        if name in claim.get("of", COMPARED):
            told = _KINDS[claim.get("kind", "below")](claim, paper, ours)
            if told is not None:
                yield PaperFinding(name, claim["text"], *told)


Told = tuple[str, str, str] | None
"""What the paper has, what we have, and the verdict; None if we have nothing."""


def _below(claim: Mapping[str, str], paper: Curves, ours: Curves) -> Told:
    places = claim["lower"], claim["higher"]
    same = len({ours.find(place.partition(" @ ")[0]) for place in places}) == 1
    lower, higher = (ours.at(place) for place in places)
    if same or lower is None or higher is None:
        return None
    there = _ratio(*(paper.at(place) for place in places))
    return there, _ratio(lower, higher), lower.below(higher)


def _saved(claim: Mapping[str, str], paper: Curves, ours: Curves) -> Told:
    """Whether a curve is still below kNN-LM at some FoSS, or where another has come up to it."""
    main, _, foss = claim["lower"].partition(" @ ")
    alone, target = claim.get("alone"), ours.at(claim["higher"])
    if target is None or ours.last_below(main, target.value) is None:
        return None
    if alone:
        other = ours.last_below(alone, target.value)
        if other is None or ours.find(main) == ours.find(alone):
            return None
        foss = str(other[0] or 0.0)
    shown = []
    for side in (paper, ours):
        level = side.at(claim["higher"])
        shown.append(
            "; alone ".join(
                _up_to(side.last_below(one, level.value) if level else None)
                for one in (main, alone)
                if one
            )
        )
    there = ours.at(f"{main} @ {foss}")
    return shown[0], shown[1], there.below(target) if there else "does not hold; no interval"


def _rise(claim: Mapping[str, str], paper: Curves, ours: Curves) -> Told:
    """What it costs to save searches, each curve against its own level with all of them made."""
    sides = [
        [_gain(side, claim[end], _start(claim[end])) for end in ("lower", "higher")]
        for side in (paper, ours)
    ]
    lower, higher = sides[1]
    if lower is None or higher is None:
        return None
    return _changes(sides[0]), _changes(sides[1]), lower.below(higher)


_KINDS: Mapping[str, Callable[[Mapping[str, str], Curves, Curves], Told]] = {
    "below": _below,
    "saved": _saved,
    "rise": _rise,
}


def _between_texts(studies: Studies) -> Iterator[PaperFinding]:
    names = ("adaptation", "in-domain")
    if not studies.keys() >= {*names}:
        return
    places = "retomaton main @ 0", "knnlm @ 0"
    ours = [_gain(studies[name].curves, *places) for name in names]
    if ours[0] and ours[1]:
        paper = [_gain(Curves.published(name), *places) for name in names]
        claim = "RetoMaton gains more on law than on Wikipedia (against kNN-LM)"
        yield PaperFinding(BOTH, claim, _changes(paper), _changes(ours), ours[0].below(ours[1]))
    seen = [_five_grams(studies[name]) for name in names]
    if seen[0] is not None and seen[1] is not None:
        there = [PAPER["five-grams"][name] for name in names]
        yield PaperFinding(
            BOTH,
            "The corpus has more of the text's 5-grams in law than in Wikipedia",
            f"{there[0]:.0%} against {there[1]:.0%} (of words)",
            f"{seen[0]:.0%} against {seen[1]:.0%} (of tokens)",
            Level(seen[1]).below(Level(seen[0])),
        )


def _five_grams(study: Study) -> float | None:
    rows = [row for row in study.analysis.get("overlap") or [] if row["n"] == 5]
    return (
        rows[0]["occurrences_seen"] / rows[0]["occurrences"]
        if rows and rows[0]["occurrences"]
        else None
    )


def _of_time(studies: Studies) -> Iterator[PaperFinding]:
    study = studies.get("wall-clock")
    saved = (
        study.saved_times().get(study.curves.find("retomaton main") or ("", "")) if study else None
    )
    if not saved or len(saved) < 2:
        return
    paper = [foss - share for foss, share in PAPER["saved-time"]["the paper, CPU index"]]
    whole, beyond = ([point[0] - point[i] for point in saved] for i in (1, 2))
    yield PaperFinding(
        "wall-clock",
        f"The saved fraction of wall-clock is FoSS less a constant (which varies by {STEADY:g} "
        "at most)",
        f"FoSS less {_range(paper)} (CPU index)",
        f"FoSS less {_range(whole)}; of the time beyond the LM, less {_range(beyond)}",
        Level(max(whole) - min(whole)).below(Level(STEADY)),
    )


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


def _start(place: str) -> str:
    return place.partition(" @ ")[0] + " @ 0"


def _gain(curves: Curves, one: str, other: str) -> Level | None:
    here, there = curves.at(one), curves.at(other)
    return here.over(there) if here and there else None


def _up_to(crossing: tuple[float | None, bool] | None) -> str:
    if crossing is None:
        return NOT_THERE
    foss, ends = crossing
    return (
        "at no FoSS"
        if foss is None
        else f"up to FoSS {foss:.2f}{' (its last point)' if ends else ''}"
    )


def _ratio(ours: Level | None, theirs: Level | None) -> str:
    if ours is None or theirs is None:
        return NOT_THERE
    return f"{ours.over(theirs).change()}: {ours.value:,.2f} against {theirs.value:,.2f}"


def _changes(pair: Sequence[Level | None]) -> str:
    shown = [one.change() for one in pair if one is not None]
    return " against ".join(shown) if len(shown) == len(pair) else NOT_THERE


def _range(values: Sequence[float]) -> str:
    return f"{min(values):,.2f} to {max(values):,.2f}"
