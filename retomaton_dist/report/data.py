"""What a report says, as data: report.jinja puts it into words, headings and blocks."""

import datetime
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retomaton_dist.report import names, tables
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.headline import result_sentences
from retomaton_dist.report.render import Figure, Table, shorten
from retomaton_dist.report.rows import full_retrieval
from retomaton_dist.storage.canonical import Json

LONGEST_PASSAGE = 4000


@dataclass(frozen=True)
class Section:
    """A part of the report: the macro of report.jinja that writes it, its title and its data."""

    name: str
    title: str
    data: Json


def report_data(evaluation: EvaluationFiles, figures: Mapping[str, Figure]) -> Json:
    """Everything that the report's template needs.

    A section without data is left out, unless there is a figure of its name.
    """
    made = [(name, title, make(evaluation)) for name, title, make in _SECTIONS]
    sections = [
        Section(name, title, data or {})
        for name, title, data in made
        if data is not None or name in figures
    ]
    return {
        **_about(evaluation),
        "result": result_sentences(evaluation),
        "headline": tables.headline_table(evaluation.rows),
        "figures": figures,
        "sections": sections,
    }


def gains_figure(method: str) -> str:
    """The name of a method's figure of gains."""
    return f"gains_{method.replace('+', '_')}"


def groupings_of(gains: Sequence[Json]) -> list[str]:
    """The groupings of some points, each once."""
    return list(dict.fromkeys(item["title"] for one in gains for item in one["groupings"]))


def groups_of(one: Json, title: str) -> dict[str, Json]:
    """The groups of one grouping of a point, by name."""
    found = (item["groups"] for item in one["groupings"] if item["title"] == title)
    return {group["name"]: group for group in next(found, [])}


def _about(evaluation: EvaluationFiles) -> Json:
    """What was evaluated, with what and when; what an older evaluation did not note is None."""
    settings, results = evaluation.settings, evaluation.results
    corpus = evaluation.analysis.get("corpus") or {}
    texts = settings.get("sources") or [None]
    text = _files(texts[0], len(texts))
    made_of = _files(corpus.get("first_source"), corpus.get("sources", 1))
    store, model = (_files(settings.get(name)) for name in ("store", "model"))
    day = datetime.datetime.fromtimestamp(evaluation.made, datetime.UTC)
    date = f"{day.day} {day:%B %Y}"
    measured = " with ".join(known["name"] for known in (text, store) if known)
    used = ", ".join(known["name"] for known in (made_of, model) if known)
    return {
        "title": f"{measured or 'Evaluation'}{f' ({used})' if used else ''}, {date}",
        "about": {"text": text, "store": store, "corpus": made_of, "model": model, "date": date},
        **{name: results[name] for name in ("positions", "documents")},
    }


def _files(first: Any, count: int = 1) -> Json | None:
    """A file or folder, its own name, and how many more there are; None if it is not known."""
    if not isinstance(first, str):
        return None
    more = f" and {count - 1:,} more" if count > 1 else ""
    return {"path": f"{first}{more}", "name": f"{Path(first).name}{more}"}


def _gains(evaluation: EvaluationFiles) -> Json | None:
    """All points, and for each method a table per grouping of tokens."""
    gains: list[Json] = evaluation.analysis.get("gains") or []
    methods = []
    for method in dict.fromkeys(one["method"] for one in gains):
        chosen = [one for one in gains if one["method"] == method]
        groupings = [_groups_table(chosen, title) for title in groupings_of(chosen)]
        figure = gains_figure(method)
        methods.append({"first": chosen[0], "figure": figure, "groupings": groupings})
    return {"points": gains, "methods": methods} if gains else None


def _groups_table(gains: Sequence[Json], grouping: str) -> Table:
    """One grouping: tokens, the baseline's perplexity, and the change at every point.

    How candidates were found differs from point to point, and so do the tokens of such a group.
    """
    by_point = [groups_of(one, grouping) for one in gains]
    listed = {name: group for groups in by_point for name, group in groups.items()}
    fixed = grouping != "how candidates were found"
    columns = ["change", "better", "worse"] if fixed else ["tokens", "change", "better", "worse"]
    header = [grouping, *(["tokens", "perplexity of the baseline"] if fixed else [])]
    header += [f"{column}, {names.point_name(one)}" for one in gains for column in columns]
    body = []
    for name, group in listed.items():
        row = [name]
        if fixed:
            row += [f"{group['tokens']:,}", names.number(group["baseline"])]
        for groups in by_point:
            cells = _group_cells(groups[name]) if name in groups else [names.DASH] * 4
            row += cells[-len(columns) :]
        body.append(row)
    return Table(tuple(header), body)


def _group_cells(group: Json) -> list[str]:
    bounds = f" ({names.change_interval(group['interval'])})" if group["interval"] else ""
    shares = [names.percent(group[side], 0) for side in ("better", "worse")]
    return [f"{group['tokens']:,}", names.change(group["ratio"]) + bounds, *shares]


def _ablation(evaluation: EvaluationFiles) -> Json | None:
    automata = evaluation.settings.get("automata")
    table = tables.ablation_table(evaluation.rows, automata if isinstance(automata, dict) else {})
    return {"clusterings": table} if len(table.rows) > 1 else None


def _wall_clock(evaluation: EvaluationFiles) -> Json | None:
    """Points that were run alone, or else the one pass that served them all."""
    alone = [row for row in evaluation.rows if row.seconds is not None]
    together, whole = evaluation.results.get("seconds"), full_retrieval(alone)
    known = {"alone": alone, "together": together, "whole": whole}
    return known if alone or together else None


def _runs(evaluation: EvaluationFiles) -> Json | None:
    runs = evaluation.analysis.get("runs")
    return {**runs, "walk": str(evaluation.analysis.get("walk", ""))} if runs else None


def _sequences(evaluation: EvaluationFiles) -> Json | None:
    found: Json = evaluation.analysis.get("sequences") or {}
    ordered = sorted(found.items(), key=lambda item: (len(item[0]), item[0]))
    return {"lengths": ordered} if ordered else None


def _passage(evaluation: EvaluationFiles) -> Json | None:
    found: Json | None = evaluation.analysis.get("passage")
    if not found:
        return None
    source = found.get("source")
    return {**found, "evaluated": _marked(found["evaluated"]), "source": source and _marked(source)}


def _marked(stretch: Json) -> Json:
    """A stretch with its surroundings, itself between brackets."""
    text = shorten(stretch["text"], LONGEST_PASSAGE)
    return {"entry": None, **stretch, "marked": f"{stretch['before']}⟦{text}⟧{stretch['after']}"}


def _calibration(evaluation: EvaluationFiles) -> Json | None:
    """Constants, AdaptRet's thresholds, which temperatures were tried, and what lies at an edge."""
    methods = evaluation.calibration.get("methods")
    if not methods:
        return None
    tried = evaluation.settings.get("tried") or {}
    return {
        "constants": tables.constants_table(methods),
        "thresholds": (methods.get("adaptret") or {}).get("thresholds") or {},
        "temperatures": tried.get("temperatures") or [],
        "edges": [f"{line}: {', '.join(at)}." for line, at in (tried.get("edges") or {}).items()],
    }


def _adaptret(evaluation: EvaluationFiles) -> Json | None:
    trained: Json | None = (evaluation.calibration.get("methods") or {}).get("adaptret")
    # A calibration that the store keeps has no times: its bytes are the same on every run.
    return {"seconds": None, **trained} if trained else None


def _caps(evaluation: EvaluationFiles) -> Json | None:
    caps, positions = evaluation.results.get("caps"), evaluation.results["positions"]
    return {"walks": tables.caps_table(caps, positions)} if caps else None


def _repeat(evaluation: EvaluationFiles) -> Json:
    """The command, then every group of settings; single ones together, without a title."""
    settings = {key: value for key, value in evaluation.settings.items() if key != "command"}
    single = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    groups: Json = {"": single} if single else {}
    groups |= {key: value for key, value in settings.items() if isinstance(value, dict) and value}
    if "text" in groups:
        # How often caps were hit has a section of its own.
        groups["text"] = {key: value for key, value in groups["text"].items() if key != "caps"}
    command = evaluation.settings.get("command") or ""
    return {
        "command": shlex.join(map(str, command)) if isinstance(command, list) else str(command),
        "groups": [(name, tables.facts_table(facts)) for name, facts in groups.items()],
    }


def _list_of(file: str, name: str) -> Callable[[EvaluationFiles], Json | None]:
    """What makes a section of a list in one of the evaluation's files."""

    def make(evaluation: EvaluationFiles) -> Json | None:
        found = getattr(evaluation, file).get(name)
        return {name: found} if found else None

    return make


_SECTIONS: tuple[tuple[str, str, Callable[[EvaluationFiles], Json | None]], ...] = (
    ("shared", "Documents that are in several texts", _list_of("duplicates", "pairs")),
    ("gains", "What gets better and what gets worse", _gains),
    ("reliability", "Whether probabilities mean what they say", _list_of("results", "reliability")),
    (
        "recalibrated",
        "How much depends on the calibration text",
        _list_of("results", "recalibrated"),
    ),
    ("retrained", "How much depends on the network", _list_of("results", "retrained")),
    ("tau", "FoSS and perplexity by tau", lambda _: None),
    ("ablation", "Clusterings compared", _ablation),
    ("wall_clock", "Wall-clock", _wall_clock),
    ("runs", "Search-free runs", _runs),
    ("overlap", "What the text shares with the corpus", _list_of("analysis", "overlap")),
    ("sequences", "The most probable search-free sequences", _sequences),
    ("passage", "The longest captured passage and its source", _passage),
    ("calibration", "Calibration", _calibration),
    ("adaptret", "What AdaptRet's training cost", _adaptret),
    ("points", "All points", lambda evaluation: {"rows": evaluation.rows}),
    ("caps", "How often caps were hit", _caps),
    ("repeat", "To repeat this: settings, versions and fingerprints", _repeat),
    ("words", "What the words mean", lambda _: {}),
)
