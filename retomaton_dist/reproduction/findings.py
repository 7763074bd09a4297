"""The paper's findings, each with its number there, ours, and whether it holds here.

What cannot be read off our points is left out, and so is nothing else: what does not hold here is
listed like what does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.headline import Crossing, largest_foss
from retomaton_dist.report.names import curve_name, interval, number
from retomaton_dist.report.rows import (
    ADAPTRET,
    KNNLM,
    LM,
    Curve,
    Row,
    curves,
    main_clustering,
)
from retomaton_dist.reproduction.paper import FIVE_GRAMS, PUBLISHED, SAVED_TIME
from retomaton_dist.reproduction.standing import Standing, Verdict, standing, standing_at
from retomaton_dist.reproduction.wall_clock import saved_times

Studies = Mapping[str, EvaluationFiles]
"""Evaluations by the name of their folder."""
Curves = Mapping[Curve, Sequence[Row]]
PAPERS_MAIN, WITHOUT = Curve("retomaton", "kmeans"), Curve("retomaton", "none")
SUFFIX = Curve("suffix", None)
NOT_THERE, BOTH = "not measured", "both texts"
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

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The evaluations whose keys it depends on."""
        if self.study == BOTH:
            return ("in-domain", "adaptation") if "gains" in self.claim else ()
        return () if self.study == "wall-clock" else (self.study,)


def find(studies: Studies) -> list[PaperFinding]:
    """Whatever of the paper's findings the evaluations can tell, in the paper's order.

    What pointers gain over keys that say less than the last few tokens is no finding about
    RetoMaton: with such an LM the numbers are shown, and no verdict.
    """
    # What one evaluation of a store tells of its keys is true of all.
    stores = {study.settings.get("store") for study in studies.values() if weak_lm(study.rows)}
    weak = {name for name, study in studies.items() if study.settings.get("store") in stores}
    return [
        replace(one, verdict="cannot be told: weak LM") if weak & {*one.rests_on} else one
        for one in _find(studies)
    ]


def weak_lm(rows: Sequence[Row]) -> tuple[float, float] | None:
    """Perplexities of a look-up of suffixes, which uses no key, and kNN-LM, if that is higher."""
    found = curves(rows)
    lookup, searched = _lowest(found.get(SUFFIX, ())), _at(found, KNNLM)
    if lookup is None or searched is None or lookup >= searched.value:
        return None
    return lookup, searched.value


def _find(studies: Studies) -> list[PaperFinding]:
    found: list[PaperFinding] = []
    for name in ("in-domain", "adaptation", "adaptation-strong", "fine-tuned"):
        if name in studies:
            published = PUBLISHED[name.removesuffix("-strong")].rows
            compared = BesideThePaper(name, curves(published), curves(studies[name].rows))
            found += compared.findings()
    found += _between_texts(studies)
    for name in ("ablation-wiki", "ablation-law"):
        if name in studies:
            found += _of_clusterings(name, curves(studies[name].rows))
    if "wall-clock" in studies:
        found += _of_time(studies["wall-clock"])
    return found


@dataclass(frozen=True)
class BesideThePaper:
    """The paper's curves of an experiment beside ours."""

    study: str
    paper: Curves
    ours: Curves

    def findings(self) -> Iterator[PaperFinding]:
        """All that can be told."""
        every = "With every search made, RetoMaton is below"
        yield from self._below(f"{every} kNN-LM", KNNLM)
        yield from self._below_stronger()
        yield from self._below(f"{every} AdaptRet", ADAPTRET)
        yield from self._below(f"{every} the LM alone", LM)
        yield from self._saved()
        yield from self._saved_by_clustering()
        yield from self._half_saved()

    @property
    def _main(self) -> Curve:
        rows = [row for points in self.ours.values() for row in points]
        return Curve("retomaton", main_clustering(rows))

    def _below(self, claim: str, other: Curve) -> Iterator[PaperFinding]:
        ours, theirs = _at(self.ours, self._main), _at(self.ours, other)
        if ours and theirs:
            paper = _ratio(_at(self.paper, PAPERS_MAIN), _at(self.paper, other))
            yield PaperFinding(self.study, claim, paper, _ratio(ours, theirs), ours.below(theirs))

    def _below_stronger(self) -> Iterator[PaperFinding]:
        """Against every stronger kNN-LM that was evaluated: not in the paper, but fair."""
        for curve in self.ours:
            if not curve.method.startswith("knnlm+"):
                continue
            learned = curve.method.endswith("+lambda")
            peer = Curve("retomaton+lambda", self._main.clustering) if learned else self._main
            ours, theirs = _at(self.ours, peer), _at(self.ours, curve)
            if ours and theirs:
                claim = f"With every search made, {curve_name(peer)} is below {curve_name(curve)}"
                shown = _ratio(ours, theirs)
                yield PaperFinding(self.study, claim, NOT_THERE, shown, ours.below(theirs))

    def _saved(self) -> Iterator[PaperFinding]:
        ours = _crossing(self.ours, self._main)
        if ours is not None:
            yield PaperFinding(
                self.study,
                "RetoMaton saves more than half of the searches at no more than kNN-LM's "
                "perplexity",
                _up_to(_crossing(self.paper, PAPERS_MAIN)),
                _up_to(ours),
                self._still_below_at(0.5),
            )

    def _saved_by_clustering(self) -> Iterator[PaperFinding]:
        """Told where pointers alone have come up to kNN-LM: RetoMaton must still be below it."""
        ours, alone = _crossing(self.ours, self._main), _crossing(self.ours, WITHOUT)
        if ours is None or alone is None or self._main == WITHOUT:
            return
        paper = _crossing(self.paper, PAPERS_MAIN), _crossing(self.paper, WITHOUT)
        yield PaperFinding(
            self.study,
            "Clustering saves more searches than pointers alone, at kNN-LM's perplexity",
            f"{_up_to(paper[0])}; alone {_up_to(paper[1])}",
            f"{_up_to(ours)}; alone {_up_to(alone)}",
            self._still_below_at(alone.foss or 0.0),
        )

    def _still_below_at(self, foss: float) -> Verdict:
        """Whether RetoMaton is below kNN-LM there; it is not where it saves less than that."""
        there, searched = _at(self.ours, self._main, foss), _at(self.ours, KNNLM)
        if there is None or searched is None:
            return "does not hold; no interval"
        return there.below(searched)

    def _half_saved(self) -> Iterator[PaperFinding]:
        """How steep curves are, each against its own level with every search made."""
        ours = _rise(self.ours, self._main)
        for other in (KNNLM, ADAPTRET):
            theirs = _rise(self.ours, other)
            if ours and theirs:
                paper = _rise(self.paper, PAPERS_MAIN), _rise(self.paper, other)
                yield PaperFinding(
                    self.study,
                    f"Saving half of the searches costs RetoMaton less than {curve_name(other)}",
                    _changes(paper),
                    _changes((ours, theirs)),
                    ours.below(theirs),
                )


def _between_texts(studies: Studies) -> Iterator[PaperFinding]:
    names = ("adaptation", "in-domain")
    if not studies.keys() >= {*names}:
        return
    ours = [_gain(studies[name].rows) for name in names]
    if ours[0] and ours[1]:
        paper = [_gain(PUBLISHED[name].rows) for name in names]
        claim = "RetoMaton gains more on law than on Wikipedia (against kNN-LM)"
        verdict = ours[0].below(ours[1])
        yield PaperFinding(BOTH, claim, _changes(paper), _changes(ours), verdict)
    seen = [_five_grams(studies[name]) for name in names]
    if seen[0] is not None and seen[1] is not None:
        # More is what is claimed here, not less.
        verdict = Standing(seen[1]).below(Standing(seen[0]))
        yield PaperFinding(
            BOTH,
            "The corpus has more of the text's 5-grams in law than in Wikipedia",
            f"{FIVE_GRAMS['adaptation']:.0%} against {FIVE_GRAMS['in-domain']:.0%} (of words)",
            f"{seen[0]:.0%} against {seen[1]:.0%} (of tokens)",
            verdict,
        )


def _gain(rows: Sequence[Row]) -> Standing | None:
    """RetoMaton's ratio to kNN-LM, both with every search made."""
    found = curves(rows)
    main, searched = Curve("retomaton", main_clustering(rows)), _at(found, KNNLM)
    ours = _at(found, main)
    return ours.over(searched) if ours and searched else None


def _five_grams(study: EvaluationFiles) -> float | None:
    overlap = study.analysis.get("overlap") or []
    fives = [row for row in overlap if row["n"] == 5 and row["occurrences"]]
    return fives[0]["occurrences_seen"] / fives[0]["occurrences"] if fives else None


Choice = Callable[[Sequence[str]], str]
"""Which of the k-means clusterings, from the coarsest to the finest; or one with another name."""


def _of_clusterings(study: str, ours: Curves) -> Iterator[PaperFinding]:
    paper = curves(PUBLISHED[study].rows)
    for claim, lower, higher, foss in _claims(study):
        names = [_choose(ours, choice) for choice in (lower, higher)]
        here = [_at(ours, Curve("retomaton", name), foss) for name in names]
        if names[0] == names[1] or not (here[0] and here[1]):
            continue
        there = [
            _at(paper, Curve("retomaton", _choose(paper, choice)), foss)
            for choice in (lower, higher)
        ]
        yield PaperFinding(study, claim, _ratio(*there), _ratio(*here), here[0].below(here[1]))


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


def _choose(found: Curves, choice: Choice) -> str | None:
    names = _by_fineness(found)
    return choice(names) if names else None


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
        f"The saved fraction of wall-clock is FoSS less a constant (which varies by {STEADY:g} "
        "at most)",
        f"FoSS less {_range(paper)} (CPU index)",
        f"FoSS less {_range(whole)}; of the time beyond the LM, less {_range(retrieval)}",
        Standing(max(whole) - min(whole)).below(Standing(STEADY)),
    )


def _at(found: Curves, curve: Curve, foss: float = 0.0) -> Standing | None:
    """Of a curve; the LM alone is the same at every FoSS."""
    points = found.get(curve, ())
    return standing(points[0]) if curve == LM and points else standing_at(points, foss)


def _lowest(points: Sequence[Row]) -> float | None:
    return min((row.perplexity for row in points), default=None)


def _rise(found: Curves, curve: Curve) -> Standing | None:
    whole, half = _at(found, curve), _at(found, curve, 0.5)
    return half.over(whole) if whole and half else None


def _crossing(found: Curves, curve: Curve) -> Crossing | None:
    """Up to which FoSS a curve is no worse than kNN-LM with every search made."""
    target = _at(found, KNNLM)
    return largest_foss(found[curve], target.value) if target and curve in found else None


def _up_to(crossing: Crossing | None) -> str:
    if crossing is None:
        return NOT_THERE
    if crossing.foss is None:
        return "at no FoSS"
    last = " (its last point)" if crossing.kind == "all" else ""
    return f"up to FoSS {crossing.foss:.2f}{last}"


def _ratio(ours: Standing | None, theirs: Standing | None) -> str:
    if ours is None or theirs is None:
        return NOT_THERE
    levels = f"{number(ours.value)} against {number(theirs.value)}"
    return f"{_change(ours.over(theirs))}: {levels}"


def _changes(pair: Sequence[Standing | None]) -> str:
    shown = [_change(one) for one in pair if one is not None]
    return " against ".join(shown) if len(shown) == len(pair) else NOT_THERE


def _change(ratio: Standing) -> str:
    """In per cent; bounds that have no width, or are not known, are left out."""
    shown = f"{100 * (ratio.value - 1):+.1f} %"
    if ratio.bounds is None or ratio.bounds[0] == ratio.bounds[1]:
        return shown
    low, high = (100 * (bound - 1) for bound in ratio.bounds)
    return f"{shown} ({low:+.1f} to {high:+.1f})"


def _range(values: Sequence[float]) -> str:
    return interval((min(values), max(values)))
