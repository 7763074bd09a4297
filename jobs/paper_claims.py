"""The paper's claims, each with its number there, ours, and whether it holds here.

What cannot be read off our points is left out, and so is nothing else: what does not hold here is
listed like what does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from retomaton_dist.jobs.paper_curves import PAPER, Curves, Level, Study

COMPARED = ("in-domain", "adaptation", "adaptation-strong", "fine-tuned")
NOT_THERE, BOTH, WEAK = "not measured", "both texts", "cannot be told: weak LM"
# Saved time less FoSS may vary by so much and still count as a constant.
STEADY = 0.1

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
    places = [claim[end] for end in ("lower", "higher")]
    starts = [f"{place.partition(' @ ')[0]} @ 0" for place in places]
    sides = [list(map(side.gain, places, starts)) for side in (paper, ours)]
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
    ours = [studies[name].curves.gain(*places) for name in names]
    if ours[0] and ours[1]:
        paper = [Curves.published(name).gain(*places) for name in names]
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
