"""The sections of a report. One that an evaluation has nothing for is left out."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from retomaton_dist.report import tables
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.gain_sections import (
    gains_section,
    recalibrated_section,
    reliability_section,
    retrained_section,
    shared_section,
)
from retomaton_dist.report.headline import result_sentence
from retomaton_dist.report.names import percent, short
from retomaton_dist.report.page import (
    Bullets,
    Figure,
    Heading,
    PagePart,
    Passage,
    Verbatim,
    prose,
    shorten,
)
from retomaton_dist.storage.canonical import Json

TITLE = "Perplexity and saved searches"
LONGEST_PASSAGE = 4000
_DEFINITIONS = (
    "FoSS: the fraction of saved searches, 1 - searches / positions, over all positions.",
    "Perplexity per token: exp of the mean negative log-probability over all positions.",
    "Perplexity per word: the same sum, divided by the words of the source text; each document's "
    "end counts as one more if it is scored.",
    "95 % interval: bootstrap over documents. The ratio to a baseline is resampled in pairs, so "
    "that what makes a document hard for both cancels.",
    "Matched baseline: the same method without the automaton. For RetoMaton with constant lambda, "
    "kNN-LM of as many candidates (k + max_knns); with learned mixing, kNN-LM with as many "
    "candidates and the same network. What is gained over it is the automaton's.",
    "By interpolation: curves are taken as straight between neighbouring points. ~ marks a value "
    "read off between two points; nothing is read off outside them.",
    "LM alone: the language model without any search. It is the same at every FoSS.",
    "kNN-LM: searches at every position; for FoSS above 0, searches are dropped at random.",
    "AdaptRet: a trained network decides at which positions kNN-LM searches.",
    "RetoMaton: walks the automaton, and searches where the walk runs thin: fewer than tau states "
    "(or, with count = entries, candidates of the last step that had the right token). "
    "Without clustering every entry is its own state, so that only pointers are followed.",
    "Suffixes alone: no walk and no search. At every position the candidates are the entries that "
    "follow the longest suffix of the text so far that the corpus has.",
    "RetoMaton + suffix: where the walk runs thin it goes on from such entries, and searches only "
    "where the suffix is shorter than sigma tokens: never if sigma is 0, always if it is "
    "infinite. At random: as many of these restarts search, whatever their suffixes.",
    "+ lambda: a trained network says at every token how far the candidates are to be trusted, "
    "instead of one constant lambda.",
)


def compose(evaluation: EvaluationFiles, figures: Mapping[str, Figure]) -> list[PagePart]:
    """The whole report."""
    sections: list[list[PagePart]] = [
        _headline(evaluation, figures),
        shared_section(evaluation.duplicates),
        gains_section(evaluation.analysis.get("gains") or [], figures),
        reliability_section(evaluation.results.get("reliability") or [], figures),
        recalibrated_section(evaluation.results.get("recalibrated") or []),
        retrained_section(evaluation.results.get("retrained") or []),
        _tau(figures),
        _ablation(evaluation, figures),
        _wall_clock(evaluation, figures),
        _runs(evaluation.analysis, figures),
        _overlap(evaluation.analysis, figures),
        _sequences(evaluation.analysis),
        _passage(evaluation.analysis),
        _calibration(evaluation),
        _adaptret(evaluation.calibration),
        _points(evaluation),
        _caps(evaluation.results),
        _repeat(evaluation.settings),
        [Heading(2, "What the words mean"), Bullets(_DEFINITIONS)],
    ]
    return [part for section in sections for part in section]


def _headline(evaluation: EvaluationFiles, figures: Mapping[str, Figure]) -> list[PagePart]:
    note = "~ is read off between two points of the curve, and so is every FoSS of an equality."
    return [
        Heading(1, TITLE),
        prose(result_sentence(evaluation), strong=True),
        *_pick(figures, "curves"),
        tables.headline_table(evaluation.rows),
        prose(note),
        *_pick(figures, "ratio"),
    ]


def _tau(figures: Mapping[str, Figure]) -> list[PagePart]:
    return _titled("FoSS and perplexity by tau", _pick(figures, "tau"))


def _ablation(evaluation: EvaluationFiles, figures: Mapping[str, Figure]) -> list[PagePart]:
    automata = evaluation.settings.get("automata")
    table = tables.ablation_table(evaluation.rows, automata if isinstance(automata, dict) else {})
    if len(table.rows) < 2:
        return []
    return _titled("Clusterings compared", [*_pick(figures, "ablation"), table])


def _wall_clock(evaluation: EvaluationFiles, figures: Mapping[str, Figure]) -> list[PagePart]:
    seconds = evaluation.results.get("seconds")
    found: list[PagePart] = [*_pick(figures, "wall_clock")]
    table = tables.seconds_table(evaluation.rows)
    if table.rows:
        found.append(prose("Seconds of each point, run alone with only the searches it asks for."))
        found.append(table)
    elif seconds:
        found.append(prose("Seconds of the one pass that served all points of all curves."))
        found.append(tables.pass_table(seconds))
    return _titled("Wall-clock", found)


def _runs(analysis: Json, figures: Mapping[str, Figure]) -> list[PagePart]:
    runs = analysis.get("runs")
    if not runs:
        return []
    text = (
        f" (FoSS {runs['foss']:.3f}) cut the text into {runs['runs']:,} runs: a run begins with a "
        f"search or a document and goes on while no search is needed. "
        f"{percent(runs['share_longer_than_1'])} of the {runs['tokens']:,} tokens are in runs "
        f"longer than 1; the longest has {runs['longest']:,} tokens."
    )
    walk = Verbatim(str(analysis.get("walk", "")))
    return _titled("Search-free runs", [prose("The walk ", walk, text), *_pick(figures, "runs")])


def _overlap(analysis: Json, figures: Mapping[str, Figure]) -> list[PagePart]:
    found = analysis.get("overlap")
    if not found:
        return []
    return _titled(
        "What the text shares with the corpus",
        [*_pick(figures, "overlap"), tables.overlap_table(found)],
    )


def _sequences(analysis: Json) -> list[PagePart]:
    found: Mapping[str, Sequence[Json]] = analysis.get("sequences") or {}
    parts: list[PagePart] = []
    for length, listed in sorted(found.items(), key=lambda item: (len(item[0]), item[0])):
        parts.append(Heading(3, f"{length} tokens"))
        parts.append(tables.sequences_table(listed) if listed else prose("There is none."))
    if not parts:
        return []
    about = (
        "All tokens of these sequences were reached without a search. The probability is the "
        "product of the tokens' probabilities under the method, averaged (as a geometric mean) "
        "over the times the sequence occurs. Of sequences that overlap in the text only the most "
        "probable is listed. The longest are listed only if they appear nowhere in the corpus."
    )
    return _titled("The most probable search-free sequences", [prose(about), *parts])


def _passage(analysis: Json) -> list[PagePart]:
    passage = analysis.get("passage")
    if not passage:
        return []
    source = passage.get("source")
    parts = [
        prose(f"{passage['tokens']:,} tokens in a row were reached without a search: ⟦ to ⟧."),
        *_stretch("Evaluated text: ", passage["evaluated"]),
    ]
    if source:
        begin = f"The longest part of it that the corpus has, {source['tokens']:,} tokens: "
        parts += _stretch(begin, source)
    return _titled("The longest captured passage and its source", parts)


def _stretch(begin: str, found: Json) -> list[PagePart]:
    entry = found.get("entry")
    named = "" if entry is None else f", entry {entry:,}"
    place = f", byte {found['byte_in_document']:,}{named}; the document begins in "
    offset = f" at {found['document_offset']:,}:"
    text = f"{found['before']}⟦{shorten(found['text'], LONGEST_PASSAGE)}⟧{found['after']}"
    line = prose(begin, Verbatim(found["document"]), place, Verbatim(found["file"]), offset)
    return [line, Passage(text)]


def _calibration(evaluation: EvaluationFiles) -> list[PagePart]:
    methods = evaluation.calibration.get("methods")
    if not methods:
        return []
    about = "Chosen on the calibration text, or given; then constant along each curve."
    return _titled(
        "Calibration", [prose(about), *_tried(evaluation.settings), tables.facts_table(methods)]
    )


def _tried(settings: Json) -> list[PagePart]:
    """Which temperatures were tried, and what was chosen at an edge."""
    tried = settings.get("tried") or {}
    if not tried.get("temperatures"):
        return []
    grid, edges = tried["temperatures"], tried.get("edges")
    span = f"{len(grid)} temperatures from {short(grid[0])} to {short(grid[-1])} were scored. "
    if not edges:
        return [prose(f"{span}No constant lies at an edge of what was tried.")]
    lines = [f"{line}: {', '.join(places)}." for line, places in edges.items()]
    warning = "Constants at an edge of what was tried, where a better one may lie beyond:"
    return [prose(span), prose(warning, strong=True), Bullets(tuple(lines))]


def _adaptret(calibration: Json) -> list[PagePart]:
    trained = (calibration.get("methods") or {}).get("adaptret")
    if not trained:
        return []
    # A calibration that the store keeps has no times: its bytes are the same on every run.
    took = f"; it took {trained['seconds']:,.1f} seconds" if trained.get("seconds") else ""
    about = (
        f"AdaptRet's network was trained on {trained['positions']:,} positions of held-out text, "
        f"and {trained['held_out']:,} more chose among its {trained['epochs']:,} epochs{took}. "
        "Plain RetoMaton trains nothing: held-out text serves only to choose its constants."
    )
    return _titled("What AdaptRet's training cost", [prose(about)])


def _points(evaluation: EvaluationFiles) -> list[PagePart]:
    return _titled("All points", [tables.points_table(evaluation.rows)])


def _repeat(settings: Json) -> list[PagePart]:
    """The command, then every group of settings; single ones together."""
    single = {
        key: value
        for key, value in settings.items()
        if not isinstance(value, dict) and key != "command"
    }
    groups: dict[str, Any] = {"": single} if single else {}
    groups |= {key: value for key, value in settings.items() if isinstance(value, dict) and value}
    if "text" in groups:
        # How often caps were hit has a section of its own.
        groups["text"] = {key: value for key, value in groups["text"].items() if key != "caps"}
    parts: list[PagePart] = []
    if settings.get("command"):
        parts.append(Passage(_command(settings["command"])))
    for name, facts in groups.items():
        parts += [Heading(3, name)] if name else []
        parts.append(tables.facts_table(facts))
    return _titled("To repeat this: settings, versions and fingerprints", parts)


def _command(given: Any) -> str:
    return shlex.join(map(str, given)) if isinstance(given, list) else str(given)


def _caps(results: Json) -> list[PagePart]:
    if not results.get("caps"):
        return []
    about = (
        "Positions at which a walk had more states than max_states, or more candidates than "
        "max_knns, so that some were left out; and at which it had no candidate at all."
    )
    table = tables.caps_table(results["caps"], results["positions"])
    return _titled("How often caps were hit", [prose(about), table])


def _titled(title: str, parts: Sequence[PagePart]) -> list[PagePart]:
    return [Heading(2, title), *parts] if parts else []


def _pick(figures: Mapping[str, Figure], name: str) -> list[PagePart]:
    return [figures[name]] if name in figures else []
