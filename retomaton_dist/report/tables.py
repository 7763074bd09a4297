"""Tables of curves, ladders and constants."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from retomaton_dist.report import names
from retomaton_dist.report.headline import Points, largest_foss
from retomaton_dist.report.render import Table, filled
from retomaton_dist.report.rows import Curve, Row, curves
from retomaton_dist.storage.canonical import Json


def ladder_table(ladder: Json) -> Table:
    """A line per source: perplexity, and the change against the line before, in both columns."""
    columns = ("perplexity", "change", "without duplicates")
    learned = (f"learned: {column}" for column in columns)
    header = ("source", "FoSS", *columns, *learned, "documents worse than the LM alone")
    body = [
        [
            line["name"],
            f"{line['online']['foss']:.3f}",
            *_line_cells(line["online"]),
            *_line_cells(line["learned"]),
            f"{line['online']['worse_than_lm']['documents']:,}",
        ]
        for line in ladder["lines"]
    ]
    return filled(header, body, texts=1)


def _line_cells(cell: Json | None) -> list[str]:
    if cell is None:
        return [names.DASH] * 3
    change, new = cell["change"] or {}, cell["without_duplicates"] or {}
    return [
        names.number(cell["perplexity"]),
        names.change_with(change.get("ratio"), change.get("interval")),
        _new(new.get("perplexity"), (new.get("against") or {}).get("ratio")),
    ]


def main_table(rows: Sequence[Row], automata: Mapping[str, Any]) -> Table:
    """Every curve where it searches most, against its matched baseline.

    `automata` are facts of clusterings, as far as they are known.
    """
    header = (
        "method", "states", "matched baseline", "FoSS", "perplexity",
        "change against the baseline", "without duplicates", "documents worse than the LM alone",
        "FoSS while no worse than the baseline",
    )  # fmt: skip
    body = [
        [
            names.method_name(curve.method),
            _states(curve, automata),
            names.method_name(None if points[0].against is None else points[0].baseline),
            f"{points[0].foss:.3f}",
            names.number(points[0].perplexity),
            names.change_with(points[0].against, points[0].against_interval),
            _new(points[0].new_perplexity, points[0].new_against),
            _worse(points[0]),
            _crossing(points),
        ]
        for curve, points in curves(rows).items()
    ]
    return filled(header, body, texts=3)


def _new(perplexity: float | None, ratio: float | None) -> str:
    """Perplexity without duplicates, and the change."""
    shown = names.number(perplexity)
    return shown if ratio is None else f"{shown} ({names.change(ratio)})"


def _worse(row: Row) -> str:
    """How many documents are worse than with the LM alone, and by how much the worst is."""
    shown = names.number(row.worse_documents, 0)
    return f"{shown}, {names.change(row.worst_ratio)} at most" if row.worse_documents else shown


def _states(curve: Curve, automata: Mapping[str, Any]) -> str:
    facts = automata.get(curve.clustering or "")
    states = facts.get("states") if isinstance(facts, dict) else None
    named = names.clustering_name(curve.clustering)
    return f"{named} ({states:,})" if isinstance(states, int) else named


def _crossing(points: Points) -> str:
    """Up to which FoSS the baseline of a walk, with all its searches, is reached."""
    row = points[0]
    if row.against is None or row.clustering is None:
        return names.DASH
    found = largest_foss(points, row.perplexity / row.against)
    if found.foss is None:
        return "never"
    return f"all of it (to {found.foss:.3f})" if found.kind == "all" else f"{found.foss:.3f}"


def constants_table(methods: Mapping[str, Any]) -> Table:
    """What calibration found for each method: by clustering, and by sigma or mixing below that."""
    found = [
        (method, where, facts)
        for method, calibrated in methods.items()
        for where, facts in _innermost(calibrated)
    ]
    usual = ("lambda", "temperature", "pointer_weight")
    known = [*dict.fromkeys([*usual, *(name for _, _, facts in found for name in facts)])]
    body = [
        [
            names.method_name(method),
            ", ".join(where) or names.DASH,
            *(_fact(facts.get(name)) for name in known),
        ]
        for method, where, facts in found
    ]
    header = ("method", "for", *(name.replace("_", " ") for name in known))
    return filled(header, body, texts=2)


def _innermost(facts: Mapping[str, Any], where: tuple[str, ...] = ()) -> list[Any]:
    """Each group of plain facts with where it is: (clustering, sigma), ...

    AdaptRet's thresholds, a list by FoSS, are in calibration.json alone.
    """
    plain = {name: value for name, value in facts.items() if not isinstance(value, dict)}
    found = [(where, plain)] if plain else []
    for name, inner in facts.items():
        if isinstance(inner, dict) and name != "thresholds":
            # A clustering comes first, whatever its name.
            shown = re.sub(r"^(inf|[\d.]+)$", r"sigma \1", name) if where else name
            found += _innermost(inner, (*where, shown))
    return found


def _fact(value: Any) -> str:
    if value is None:
        return names.DASH
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}"
