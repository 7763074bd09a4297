"""The tables of a report."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from retomaton_dist.report import names
from retomaton_dist.report.headline import (
    Crossing,
    Points,
    ReadOff,
    Target,
    largest_foss,
    matched,
    perplexity_at,
    targets,
)
from retomaton_dist.report.page import Inline, Table, Verbatim, shorten
from retomaton_dist.report.rows import KNNLM, LM, Curve, Row, curves, full_retrieval
from retomaton_dist.storage.canonical import Json

SHOWN_FOSS = (0.0, 0.5)
LONGEST_FACT = 400
_PARTS = ("lm", "search", "walk", "rest", "total")
_AIMS = {
    "knnlm": "kNN-LM at FoSS 0",
    "knnlm+wide": "kNN-LM of as many candidates at FoSS 0",
    "adaptret": "AdaptRet's best",
}


def headline_table(rows: Sequence[Row]) -> Table:
    """Perplexity at a few FoSS, and up to which FoSS RetoMaton equals the others."""
    found = curves(rows)
    aims = targets(found)
    header = (
        "method",
        "clustering",
        *(f"perplexity at FoSS {foss:g}" for foss in SHOWN_FOSS),
        "matched baseline at FoSS 0",
        "change against it at FoSS 0",
        "FoSS while no worse than it",
        *(f"FoSS while no worse than {_AIMS[aim.name]}" for aim in aims),
    )
    body = [
        [
            *_curve_cells(curve),
            *_levels(curve, points),
            *_matched(points, matched(found, points)),
            *_crossings(curve, points, aims),
        ]
        for curve, points in found.items()
    ]
    return Table(header, body, texts=2)


def _matched(points: Points, aim: Target | None) -> list[Inline]:
    """The baseline that differs from a curve by the automaton alone, and how they compare."""
    row = points[0]
    if aim is None or row.against is None:
        return [names.DASH] * 3
    change = f"{100 * (row.against - 1):+.1f} %" if row.foss == 0 else names.DASH
    reached = _crossing(largest_foss(points, aim.perplexity))
    return [f"{names.method_name(aim.name)}: {names.number(aim.perplexity)}", change, reached]


def _baseline(row: Row) -> str:
    return names.DASH if row.against is None else names.method_name(row.baseline or "")


def points_table(rows: Sequence[Row]) -> Table:
    """Every point of every curve."""
    columns: dict[str, Any] = {
        "tau": lambda row: names.short(row.tau),
        "sigma": lambda row: names.short(row.sigma),
        "share of restarts": lambda row: names.short(row.share),
        "FoSS": lambda row: names.number(row.foss, 3),
        "searches": lambda row: f"{row.searches:,}",
        "perplexity": lambda row: names.number(row.perplexity),
        "95 % interval": lambda row: names.interval(row.interval),
        "per word": lambda row: names.number(row.perplexity_per_word),
        "95 % interval of it": lambda row: names.interval(row.interval_per_word),
        "matched baseline": lambda row: _baseline(row),
        "ratio to it": lambda row: names.number(row.against, 3),
        "95 % interval of the ratio": lambda row: names.interval(row.against_interval, 3),
        "ratio to kNN-LM": lambda row: names.number(row.against_knnlm, 3),
        "lambda": lambda row: names.short(row.lambda_),
        "temperature": lambda row: names.short(row.temperature),
        "pointer weight": lambda row: names.short(row.pointer_weight),
        "FoSS as the authors count": lambda row: names.number(row.reference_foss, 3),
    }
    cells = {name: [write(row) for row in rows] for name, write in columns.items()}
    kept = {name: column for name, column in cells.items() if {*column} != {names.DASH}}
    body = [
        [*_curve_cells(row.curve), *(column[i] for column in kept.values())]
        for i, row in enumerate(rows)
    ]
    return Table(("method", "clustering", *kept), body, texts=2)


def ablation_table(rows: Sequence[Row], automata: Mapping[str, Any]) -> Table:
    """Plain RetoMaton by clustering; `automata` are their facts, as far as they are known."""
    found = curves(rows)
    plain = {
        curve.clustering: points
        for curve, points in found.items()
        if curve.method == "retomaton" and curve.clustering is not None
    }
    searched = [aim for aim in targets(found) if aim.name == KNNLM.method]
    fair = next((aim for points in plain.values() if (aim := matched(found, points))), None)
    aims = [fair] if fair else searched
    header = ("clustering", "states", *(f"perplexity at FoSS {foss:g}" for foss in SHOWN_FOSS))
    body = [
        [
            names.clustering_name(name),
            _states(automata.get(name)),
            *_levels(Curve("retomaton", name), points),
            *_crossings(Curve("retomaton", name), points, aims),
        ]
        for name, points in plain.items()
    ]
    reached = (f"FoSS while no worse than {_AIMS[aim.name]}" for aim in aims)
    return Table((*header, *reached), body)


def seconds_table(rows: Sequence[Row]) -> Table:
    """Wall-clock of each point that was run alone, and how much of the retrieval it saved."""
    whole = full_retrieval(rows)
    body: list[list[Inline]] = []
    for row in rows:
        if row.seconds is None:
            continue
        saved = None if not whole or row.retrieval is None else 1 - row.retrieval / whole
        parts = [names.number(row.seconds[part]) for part in _PARTS]
        place = [names.short(row.tau), names.short(row.sigma), names.number(row.foss, 3)]
        saving = names.DASH if row.method == "lm" else names.percent(saved)
        body.append([*_curve_cells(row.curve), *place, *parts, saving])
    header = ("method", "clustering", "tau", "sigma", "FoSS", *_PARTS, "retrieval saved")
    return Table(header, body, texts=2)


def pass_table(seconds: Mapping[str, float]) -> Table:
    """Wall-clock of one pass that served all points."""
    return Table(_PARTS, [[names.number(seconds[part]) for part in _PARTS]], texts=0)


def caps_table(caps: Mapping[str, int], positions: int) -> Table:
    """How often each walk hit each cap: `caps` counts by "walk.cap"."""
    walks = {key.rpartition(".")[0] for key in caps}
    kinds = sorted({key.rpartition(".")[2] for key in caps})
    body: list[list[Inline]] = [
        [Verbatim(walk), *(_share_of(caps.get(f"{walk}.{kind}"), positions) for kind in kinds)]
        for walk in sorted(walks, key=_walk_order)
    ]
    return Table(("walk", *kinds), body)


def _walk_order(label: str) -> tuple[str, list[float], str]:
    """By automaton, then by its thresholds as numbers: tau, sigma, share."""
    automaton, _, thresholds = label.partition("@")
    try:
        return automaton, [float(one) for one in thresholds.split(",") if one], label
    except ValueError:
        return automaton, [math.inf], label


def overlap_table(found: Sequence[Json]) -> Table:
    """n-grams of the text, and how many of them the corpus has."""
    body = [
        [str(row["n"]), *(cell for kind in ("types", "occurrences") for cell in _seen(row, kind))]
        for row in found
    ]
    return Table(("n", "types", "in the corpus", "occurrences", "in the corpus"), body, texts=0)


def sequences_table(found: Sequence[Json]) -> Table:
    """Sequences with how often and how probable they were."""
    body: list[list[Inline]] = [
        [
            Verbatim(one["text"]),
            f"{one['count']:,}",
            f"{one['probability']:.2g}",
            f"{one['probability_per_token']:.2f}",
        ]
        for one in found
    ]
    return Table(("sequence", "times", "probability", "per token"), body)


def facts_table(facts: Mapping[str, Any]) -> Table:
    """Any nested facts: a row for each innermost one."""
    body = [[Verbatim(key), Verbatim(shorten(value, LONGEST_FACT))] for key, value in _flat(facts)]
    return Table(("what", "value"), body, texts=2)


def _flat(value: Any, key: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        inner = [(f"{key}.{name}" if key else str(name), item) for name, item in value.items()]
        return [pair for name, item in inner for pair in _flat(item, name)]
    if isinstance(value, list):
        return [(key, ", ".join(text for item in value for _, text in _flat(item)))]
    if isinstance(value, float):
        return [(key, f"{value:.6g}")]
    return [(key, value if isinstance(value, str) else json.dumps(value))]


def _curve_cells(curve: Curve) -> list[Inline]:
    name = curve.clustering
    named = names.DASH if name is None else names.clustering_name(name)
    return [names.method_name(curve.method), named]


def _levels(curve: Curve, points: Points) -> list[Inline]:
    if curve == LM:
        return [names.number(points[0].perplexity) for _ in SHOWN_FOSS]
    return [_level(perplexity_at(points, foss)) for foss in SHOWN_FOSS]


def _crossings(curve: Curve, points: Points, aims: Sequence[Target]) -> list[Inline]:
    if not curve.method.startswith("retomaton"):
        return [names.DASH for _ in aims]
    return [_crossing(largest_foss(points, aim.perplexity)) for aim in aims]


def _level(found: ReadOff | None) -> str:
    """A perplexity; `~` marks one between two points."""
    mark = "~" if found and found.interpolated else ""
    return mark + names.number(found.perplexity if found else None)


def _crossing(found: Crossing) -> str:
    """Up to which FoSS a target is reached."""
    if found.foss is None:
        return "never"
    return f"all of it (to {found.foss:.3f})" if found.kind == "all" else f"{found.foss:.3f}"


def _states(facts: Any) -> str:
    states = facts.get("states") if isinstance(facts, dict) else None
    return f"{states:,}" if isinstance(states, int) else names.DASH


def _share_of(count: int | None, positions: int) -> str:
    return names.DASH if count is None or not positions else names.percent(count / positions)


def _seen(row: Json, kind: str) -> tuple[str, str]:
    share = row[f"{kind}_seen"] / row[kind] if row[kind] else None
    return f"{row[kind]:,}", names.percent(share)
