"""What a report says, as data: report.jinja puts it into words, headings and blocks."""

import datetime
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retomaton_dist.evaluation.ladder import AUTOMATON
from retomaton_dist.report import names, tables
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.headline import result_sentences
from retomaton_dist.report.render import Figure, Table
from retomaton_dist.report.rows import full_retrieval
from retomaton_dist.storage.canonical import Json

# Groups of tokens are shown for the plain walk, and for the first of these that ran.
GROUPED = "retomaton", ("retomaton+ngram+cache+lambda", "retomaton+ngram+cache", "retomaton+lambda")
FOUND_HOW = "how candidates were found"
CAPS = {
    "states": "more states than max_states",
    "candidates": "more candidates than max_knns",
    "empty": "no candidate at all",
}


@dataclass(frozen=True)
class Section:
    """A part of the report: the macro of report.jinja that writes it, its title and its data."""

    name: str
    title: str
    data: Json


def report_data(evaluation: EvaluationFiles, figures: Mapping[str, Figure]) -> Json:
    """Everything that the report's template needs. A section without data is left out."""
    made = [(name, title, make(evaluation)) for name, title, make in _SECTIONS]
    automata = evaluation.settings.get("automata")
    ladders = evaluation.results.get("ladders") or []
    return {
        **_about(evaluation),
        "result": result_sentences(evaluation),
        "ladders": [(one["title"], tables.ladder_table(one)) for one in ladders],
        "ends_with_automaton": any(one["lines"][-1]["name"] == AUTOMATON for one in ladders),
        "main": tables.main_table(evaluation.rows, automata if isinstance(automata, dict) else {}),
        "no_duplicates": all(row.new_perplexity is None for row in evaluation.rows),
        "figures": figures,
        "sections": [Section(name, title, data) for name, title, data in made if data is not None],
    }


def _about(evaluation: EvaluationFiles) -> Json:
    """What was evaluated, with what and when, as far as the evaluation noted it."""
    settings, results = evaluation.settings, evaluation.results
    corpus, texts = settings.get("corpus") or {}, settings.get("sources") or [None]
    text = _files(texts[0], len(texts))
    made_of = _files(corpus.get("first_source"), corpus.get("sources", 1))
    store, model = (_files(settings.get(name)) for name in ("store", "model"))
    day = datetime.datetime.fromtimestamp(evaluation.made, datetime.UTC)
    measured = " with ".join(known for known in (text, store) if known)
    used = ", ".join(known for known in (made_of, model) if known)
    return {
        "title": f"{measured or 'Evaluation'}{f' ({used})' if used else ''}, {day.day} {day:%B %Y}",
        **{name: results[name] for name in ("positions", "documents")},
    }


def _files(first: Any, count: int = 1) -> str | None:
    """The name of a file or folder, and how many more there are; None if it is not known."""
    more = f" and {count - 1:,} more" if count > 1 else ""
    return f"{Path(first).name}{more}" if isinstance(first, str) else None


def _shared(evaluation: EvaluationFiles) -> Json | None:
    pairs, overlap = evaluation.duplicates.get("pairs"), evaluation.analysis.get("overlap")
    return {"pairs": pairs or [], "overlap": overlap or []} if pairs or overlap else None


def _gains(evaluation: EvaluationFiles) -> Json | None:
    """All points, and for two methods a table per grouping of tokens."""
    gains: list[Json] = evaluation.analysis.get("gains") or []
    ran = {one["method"] for one in gains}
    chosen = [name for name in GROUPED[1] if name in ran][:1]
    methods = []
    for method in [name for name in (GROUPED[0], *chosen) if name in ran]:
        points = [one for one in gains if one["method"] == method]
        titles = dict.fromkeys(item["title"] for one in points for item in one["groupings"])
        groupings = [_groups_table(points, title) for title in titles]
        methods.append({"first": points[0], "groupings": groupings})
    return {"points": gains, "methods": methods} if gains else None


def _groups_table(gains: Sequence[Json], grouping: str) -> Table:
    """One grouping: tokens, the baseline's perplexity, and the change at every point.

    How candidates were found differs from point to point, and so do the tokens of such a group.
    """
    by_point = [_groups_of(one, grouping) for one in gains]
    listed = {name: group for groups in by_point for name, group in groups.items()}
    fixed = grouping != FOUND_HOW
    header = [grouping, *(["tokens", "perplexity of the baseline"] if fixed else [])]
    for one in gains:
        columns = ["change", "worse"] if fixed else ["tokens", "change", "worse"]
        header += [f"{column}, {names.point_name(one)}" for column in columns]
    body = []
    for name, group in listed.items():
        row = [name, *([f"{group['tokens']:,}", names.number(group["baseline"])] if fixed else [])]
        for groups in by_point:
            cells = _group_cells(groups[name]) if name in groups else [names.DASH] * 3
            row += cells[1:] if fixed else cells
        body.append(row)
    return Table(tuple(header), body)


def _groups_of(one: Json, title: str) -> dict[str, Json]:
    found = (item["groups"] for item in one["groupings"] if item["title"] == title)
    return {group["name"]: group for group in next(found, [])}


def _group_cells(group: Json) -> list[str]:
    changed = names.change_with(group["ratio"], group["interval"])
    return [f"{group['tokens']:,}", changed, names.percent(group["worse"], 0)]


def _depends(evaluation: EvaluationFiles) -> Json | None:
    lists = {name: evaluation.results.get(name) or [] for name in ("recalibrated", "retrained")}
    return lists if any(lists.values()) else None


def _wall_clock(evaluation: EvaluationFiles) -> Json | None:
    """Points that were run alone, or else the one pass that served them all."""
    alone = [row for row in evaluation.rows if row.seconds is not None]
    together, whole = evaluation.results.get("seconds"), full_retrieval(alone)
    known = {"alone": alone, "together": together, "whole": whole}
    return known if alone or together else None


def _calibration(evaluation: EvaluationFiles) -> Json | None:
    """Constants, which temperatures were tried, and what lies at an edge."""
    methods = evaluation.calibration.get("methods")
    if not methods:
        return None
    tried = evaluation.settings.get("tried") or {}
    return {
        "constants": tables.constants_table(methods),
        "temperatures": tried.get("temperatures") or [],
        "edges": [f"{line}: {', '.join(at)}." for line, at in (tried.get("edges") or {}).items()],
    }


def _points(evaluation: EvaluationFiles) -> Json:
    """All points, and how often walks hit a cap at most."""
    most: dict[str, tuple[int, str]] = {}
    for key, count in (evaluation.results.get("caps") or {}).items():
        walk, _, kind = key.rpartition(".")
        most[kind] = max(most.get(kind, (0, "")), (count, walk))
    positions = evaluation.results["positions"]
    caps = [
        f"{words}: at {names.share_of(most[kind][0], positions)} of the positions at most "
        f"(walk {most[kind][1]})."
        for kind, words in CAPS.items()
        if kind in most and most[kind][0]
    ]
    return {"rows": evaluation.rows, "caps": caps}


def _repeat(evaluation: EvaluationFiles) -> Json:
    """The command, and all settings, versions and fingerprints as the evaluation noted them."""
    noted = {key: value for key, value in evaluation.settings.items() if key != "command"}
    if isinstance(noted.get("text"), dict):
        noted["text"] = {key: value for key, value in noted["text"].items() if key != "caps"}
    command = evaluation.settings.get("command") or ""
    return {
        "command": shlex.join(map(str, command)) if isinstance(command, list) else str(command),
        "settings": json.dumps(noted, indent=1, sort_keys=True, ensure_ascii=False),
    }


def _part(file: str, name: str) -> Callable[[EvaluationFiles], Json | None]:
    """What makes a section of a part of one of the evaluation's files."""

    def make(evaluation: EvaluationFiles) -> Json | None:
        found = getattr(evaluation, file).get(name)
        return {name: found} if found else None

    return make


_SECTIONS: tuple[tuple[str, str, Callable[[EvaluationFiles], Json | None]], ...] = (
    ("shared", "What the text shares with the corpus", _shared),
    ("gains", "What gets better and what gets worse", _gains),
    ("reliability", "Whether probabilities mean what they say", _part("results", "reliability")),
    ("depends", "How much depends on the calibration text", _depends),
    ("wall_clock", "Wall-clock", _wall_clock),
    ("runs", "Search-free runs", _part("analysis", "runs")),
    ("calibration", "Calibration", _calibration),
    ("points", "All points", _points),
    ("repeat", "To repeat this", _repeat),
    ("words", "What the words mean", lambda _: {}),
)
