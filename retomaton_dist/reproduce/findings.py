"""The paper's findings, each with its number there, ours, and whether it holds here.

What is said of us is read off the same points as everything else; what cannot be read off is left
out. A finding whose interval has both sides in it is said to be within chance.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.headline import Crossing, largest_foss, perplexity_at
from retomaton_dist.report.names import curve_name, interval, number
from retomaton_dist.report.rows import (
    ADAPTRET,
    KNNLM,
    LM,
    Curve,
    Interval,
    Row,
    curves,
    main_clustering,
)
from retomaton_dist.reproduce.paper import FIVE_GRAMS, PUBLISHED, SAVED_TIME
from retomaton_dist.reproduce.wall_clock import saved_times

Verdict = Literal["holds", "within chance", "does not hold"]
Studies = Mapping[str, EvaluationFiles]
"""Evaluations by the name of their folder."""
Curves = Mapping[Curve, Sequence[Row]]
PAPERS_MAIN, WITHOUT = Curve("retomaton", "kmeans"), Curve("retomaton", "none")
NOT_IN_PAPER = "not measured"
# Saved time less FoSS may vary by so much and still count as a constant.
STEADY = 0.1


@dataclass(frozen=True)
class PaperFinding:
    """A claim, what the paper and we have for it, and whether it holds with us."""

    study: str
    claim: str
    paper: str
    ours: str
    verdict: Verdict


def find(studies: Studies) -> list[PaperFinding]:
    """Whatever of the paper's findings the evaluations can tell, in the paper's order."""
    found: list[PaperFinding] = []
    for name in ("in-domain", "adaptation", "adaptation-strong", "fine-tuned"):
        if name in studies:
            published = PUBLISHED[name.removesuffix("-strong")].rows
            compared = Compared(name, curves(published), curves(studies[name].rows))
            found += compared.findings()
    found += _between_texts(studies)
    for name in ("ablation-wiki", "ablation-law"):
        if name in studies:
            found += _of_clusterings(name, curves(studies[name].rows))
    if "wall-clock" in studies:
        found += _of_time(studies["wall-clock"])
    return found


@dataclass(frozen=True)
class Compared:
    """The paper's curves of an experiment beside ours."""

    study: str
    paper: Curves
    ours: Curves

    def findings(self) -> Iterator[PaperFinding]:
        """All that can be told."""
        yield from self._gain()
        yield from self._fair_gains()
        yield from self._against_adaptret()
        yield from self._against_lm()
        yield from self._saved()
        yield from self._saved_by_clustering()
        yield from self._half_saved()

    @property
    def _main(self) -> Curve:
        rows = [row for points in self.ours.values() for row in points]
        return Curve("retomaton", main_clustering(rows))

    def _finding(self, claim: str, paper: str, ours: str, verdict: Verdict) -> PaperFinding:
        return PaperFinding(self.study, claim, paper, ours, verdict)

    def _level(self, curve: Curve, foss: float = 0.0) -> tuple[float | None, float | None]:
        """The paper's perplexity and ours; the main clustering has a name of its own in each."""
        ours = self._main if curve == PAPERS_MAIN else curve
        return _level(self.paper, curve, foss), _level(self.ours, ours, foss)

    def _gain(self) -> Iterator[PaperFinding]:
        points = self.ours.get(self._main, ())
        row = next((row for row in points if row.foss == 0 and row.against_knnlm), None)
        if row is None or row.against_knnlm is None:
            return
        margin = row.against_interval
        ours = _change(row.against_knnlm) + (f" ({_changes(margin)})" if margin else "")
        yield self._finding(
            "With every search made, RetoMaton is below kNN-LM",
            _ratio(self._level(PAPERS_MAIN)[0], self._level(KNNLM)[0]),
            ours,
            _below_one(row.against_knnlm, margin),
        )

    def _fair_gains(self) -> Iterator[PaperFinding]:
        """Against every stronger kNN-LM that was evaluated: not in the paper, but fair."""
        for curve in self.ours:
            if not curve.method.startswith("knnlm+"):
                continue
            learned = curve.method.endswith("+lambda")
            peer = Curve("retomaton+lambda", self._main.clustering) if learned else self._main
            ours, theirs = _level(self.ours, peer, 0.0), _level(self.ours, curve, 0.0)
            if ours is not None and theirs is not None:
                yield self._finding(
                    f"With every search made, {curve_name(peer)} is below {curve_name(curve)}",
                    NOT_IN_PAPER,
                    _ratio(ours, theirs),
                    _below_one(ours / theirs, None),
                )

    def _against_adaptret(self) -> Iterator[PaperFinding]:
        paper, ours = (_lowest(side.get(ADAPTRET, ())) for side in (self.paper, self.ours))
        levels = self._level(PAPERS_MAIN)
        if ours is not None and levels[1] is not None:
            yield self._finding(
                "With every search made, RetoMaton is below AdaptRet's best",
                _ratio(levels[0], paper),
                _ratio(levels[1], ours),
                _below_one(levels[1] / ours, None),
            )

    def _against_lm(self) -> Iterator[PaperFinding]:
        paper, ours = (_lowest(side.get(LM, ())) for side in (self.paper, self.ours))
        levels = self._level(PAPERS_MAIN)
        if ours is not None and levels[1] is not None:
            yield self._finding(
                "RetoMaton is below the LM alone",
                _ratio(levels[0], paper),
                _ratio(levels[1], ours),
                _below_one(levels[1] / ours, None),
            )

    def _saved(self) -> Iterator[PaperFinding]:
        ours = _crossing(self.ours, self._main)
        if ours is not None:
            yield self._finding(
                "RetoMaton saves more than half of the searches at no more than kNN-LM's "
                "perplexity",
                _up_to(_crossing(self.paper, PAPERS_MAIN)),
                _up_to(ours),
                _told((ours.foss or 0) > 0.5),
            )

    def _saved_by_clustering(self) -> Iterator[PaperFinding]:
        ours = _crossing(self.ours, self._main), _crossing(self.ours, WITHOUT)
        if ours[0] is None or ours[1] is None or self._main == WITHOUT:
            return
        paper = _crossing(self.paper, PAPERS_MAIN), _crossing(self.paper, WITHOUT)
        yield self._finding(
            "Clustering saves more searches than pointers alone, at kNN-LM's perplexity",
            f"{_up_to(paper[0])} against {_up_to(paper[1])}",
            f"{_up_to(ours[0])} against {_up_to(ours[1])}",
            _told((ours[0].foss or 0) > (ours[1].foss or 0)),
        )

    def _half_saved(self) -> Iterator[PaperFinding]:
        """How steep curves are, each against its own level with every search made."""
        rises = [self._rises(curve) for curve in (PAPERS_MAIN, KNNLM, ADAPTRET)]
        ours = [rise[1] for rise in rises]
        if ours[0] is None or all(rise is None for rise in ours[1:]):
            return
        others = [rise for rise in ours[1:] if rise is not None]
        yield self._finding(
            "Saving half of the searches costs RetoMaton less than kNN-LM and AdaptRet",
            " against ".join(_change(rise[0]) for rise in rises if rise[0] is not None),
            " against ".join(_change(rise) for rise in ours if rise is not None),
            _told(all(ours[0] < other for other in others)),
        )

    def _rises(self, curve: Curve) -> tuple[float | None, float | None]:
        whole, half = self._level(curve), self._level(curve, 0.5)
        paper = half[0] / whole[0] if half[0] and whole[0] else None
        return paper, half[1] / whole[1] if half[1] and whole[1] else None


def _between_texts(studies: Studies) -> Iterator[PaperFinding]:
    if not {"in-domain", "adaptation"} <= studies.keys():
        return
    gains, seen = [], []
    for name in ("in-domain", "adaptation"):
        found = curves(studies[name].rows)
        main = Curve("retomaton", main_clustering(studies[name].rows))
        ours, searched = _level(found, main, 0.0), _level(found, KNNLM, 0.0)
        if ours and searched:
            gains.append(ours / searched)
        overlap = studies[name].analysis.get("overlap") or []
        fives = [row for row in overlap if row["n"] == 5 and row["occurrences"]]
        seen += [row["occurrences_seen"] / row["occurrences"] for row in fives]
    if len(gains) == 2:
        yield PaperFinding(
            "both texts",
            "RetoMaton gains more on law than on Wikipedia (against kNN-LM)",
            f"{_ratio(10.49, 12.34)} against {_ratio(16.08, 16.65)}",
            f"{_change(gains[1])} against {_change(gains[0])}",
            _told(gains[1] < gains[0]),
        )
    if len(seen) == 2:
        yield PaperFinding(
            "both texts",
            "The corpus has more of the text's 5-grams in law than in Wikipedia",
            f"{FIVE_GRAMS['adaptation']:.0%} against {FIVE_GRAMS['in-domain']:.0%} (words)",
            f"{seen[1]:.0%} against {seen[0]:.0%} (tokens)",
            _told(seen[1] > seen[0]),
        )


Choice = Callable[[Sequence[str]], str]
"""Which of the k-means clusterings, from the coarsest to the finest; or one with another name."""


def _of_clusterings(study: str, ours: Curves) -> Iterator[PaperFinding]:
    paper = curves(PUBLISHED[study].rows)
    for claim, lower, higher, foss in _claims(study):
        there = [_chosen(paper, choice, foss) for choice in (lower, higher)]
        here = [_chosen(ours, choice, foss) for choice in (lower, higher)]
        if here[0] is None or here[1] is None or here[0][0] == here[1][0]:
            continue
        verdict = _told(here[0][1] < here[1][1])
        yield PaperFinding(study, claim, _levels(there), _levels(here), verdict)


def _claims(study: str) -> Iterator[tuple[str, Choice, Choice, float]]:
    """What is said of two clusterings at some FoSS: the first is below the second."""
    yield "k-means of about 100 per state is below the coarsest at FoSS 0.7", _usual, _coarsest, 0.7
    yield "k-means is below no clustering at FoSS 0.6", _usual, lambda _: "none", 0.6
    if study == "ablation-wiki":
        yield "Greedy merging is below k-means at FoSS 0", lambda _: "greedy", _usual, 0.0
        yield "... and above it at FoSS 0.7", _usual, lambda _: "greedy", 0.7
    else:
        yield "The finest k-means is below the coarsest at FoSS 0", _finest, _coarsest, 0.0
        yield "... and above that of about 100 per state at FoSS 0.75", _usual, _finest, 0.75


def _chosen(found: Curves, choice: Choice, foss: float) -> tuple[str, float] | None:
    """The clustering that is meant, and its perplexity; None if that cannot be read off."""
    names = _by_fineness(found)
    name = choice(names) if names else None
    level = _level(found, Curve("retomaton", name), foss)
    return None if name is None or level is None else (name, level)


def _levels(pair: Sequence[tuple[str, float] | None]) -> str:
    return " and ".join(number(one[1] if one else None) for one in pair)


def _by_fineness(found: Curves) -> list[str]:
    """Clusterings by k-means, from the coarsest to the finest."""
    names = [curve.clustering for curve in found if curve.method == "retomaton"]
    kmeans = [name for name in names if name is not None and name.startswith("kmeans")]
    return sorted(kmeans, key=per_state, reverse=True)


def per_state(name: str) -> int:
    """Entries per state of k-means, by its name; without a number it is the usual one."""
    return int(name.removeprefix("kmeans-")) if name != "kmeans" else 100


def _usual(names: Sequence[str]) -> str:
    return min(names, key=lambda name: abs(per_state(name) - 100))


def _coarsest(names: Sequence[str]) -> str:
    return names[0]


def _finest(names: Sequence[str]) -> str:
    return names[-1]


def _of_time(timed: EvaluationFiles) -> Iterator[PaperFinding]:
    main = main_clustering(timed.rows)
    saved = saved_times(timed.rows).get(Curve("retomaton", main), [])
    if len(saved) < 2:
        return
    paper = [foss - share for foss, share in SAVED_TIME["the paper, CPU index"]]
    whole = [point.foss - point.whole for point in saved]
    retrieval = [point.foss - point.retrieval for point in saved]
    yield PaperFinding(
        "wall-clock",
        "The saved fraction of wall-clock is FoSS less a constant",
        f"FoSS less {_range(paper)} (CPU index)",
        f"FoSS less {_range(whole)}; of the time beyond the LM, less {_range(retrieval)}",
        _told(max(whole) - min(whole) <= STEADY),
    )


def _level(found: Curves, curve: Curve, foss: float) -> float | None:
    read = perplexity_at(found.get(curve, ()), foss)
    return read.perplexity if read else None


def _lowest(points: Sequence[Row]) -> float | None:
    return min((row.perplexity for row in points), default=None)


def _crossing(found: Curves, curve: Curve) -> Crossing | None:
    """Up to which FoSS a curve is no worse than kNN-LM with every search made."""
    target = _level(found, KNNLM, 0.0)
    if target is None or not found.get(curve):
        return None
    return largest_foss(found[curve], target)


def _up_to(crossing: Crossing | None) -> str:
    if crossing is None:
        return NOT_IN_PAPER
    if crossing.foss is None:
        return "at no FoSS"
    last = " (its last point)" if crossing.kind == "all" else ""
    return f"up to FoSS {crossing.foss:.2f}{last}"


def _ratio(level: float | None, other: float | None) -> str:
    if level is None or other is None:
        return NOT_IN_PAPER
    return f"{_change(level / other)} ({number(level)} against {number(other)})"


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _changes(bounds: Interval) -> str:
    low, high = (100 * (bound - 1) for bound in bounds)
    return f"{interval((low, high), 1)} %"


def _range(values: Sequence[float]) -> str:
    return interval((min(values), max(values)))


def _below_one(ratio: float, margin: Interval | None) -> Verdict:
    if margin is not None and margin[0] < 1 < margin[1]:
        return "within chance"
    return _told(ratio < 1)


def _told(holds: bool) -> Verdict:
    return "holds" if holds else "does not hold"
