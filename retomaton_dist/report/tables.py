"""Tables of curves, constants and settings."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from retomaton_dist.report import names
from retomaton_dist.report.headline import (
    Points,
    Target,
    largest_foss,
    matched,
    perplexity_at,
    targets,
)
from retomaton_dist.report.render import Cell, Table, Verbatim, shorten
from retomaton_dist.report.rows import KNNLM, LM, Curve, Row, by_clustering, curves, full_retrieval

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
            *_against_baseline(points, matched(found, points)),
            *_crossings(curve, points, aims),
        ]
        for curve, points in found.items()
    ]
    return Table(header, body, texts=2)


def points_table(rows: Sequence[Row]) -> Table:
    """Every point of every curve; columns that no point has anything for are left out."""
    columns: dict[str, Callable[[Row], str]] = {
        "method": lambda row: names.method_name(row.method),
        "clustering": lambda row: names.clustering_name(row.clustering),
        "tau": lambda row: names.short(row.tau),
        "sigma": lambda row: names.short(row.sigma),
        "share of restarts": lambda row: names.short(row.share),
        "FoSS": lambda row: names.number(row.foss, 3),
        "searches": lambda row: f"{row.searches:,}",
        "perplexity": lambda row: names.number(row.perplexity),
        "95 % interval": lambda row: names.interval(row.interval),
        "per word": lambda row: names.number(row.perplexity_per_word),
        "95 % interval of it": lambda row: names.interval(row.interval_per_word),
        "matched baseline": lambda row: names.method_name(
            row.baseline if row.against is not None else None
        ),
        "ratio to it": lambda row: names.number(row.against, 3),
        "95 % interval of the ratio": lambda row: names.interval(row.against_interval, 3),
        "ratio to kNN-LM": lambda row: names.number(row.against_knnlm, 3),
        "lambda": lambda row: names.short(row.lambda_),
        "temperature": lambda row: names.short(row.temperature),
        "pointer weight": lambda row: names.short(row.pointer_weight),
        "FoSS as the authors count": lambda row: names.number(row.reference_foss, 3),
    }
    cells = {name: [write(row) for row in rows] for name, write in columns.items()}
    kept = {
        name: column
        for name, column in cells.items()
        if name == "clustering" or {*column} != {names.DASH}
    }
    return Table(tuple(kept), [*zip(*kept.values(), strict=True)], texts=2)


def ablation_table(rows: Sequence[Row], automata: Mapping[str, Any]) -> Table:
    """Plain RetoMaton by clustering; `automata` are their facts, as far as they are known."""
    found, plain = curves(rows), by_clustering(rows)
    searched = [aim for aim in targets(found) if aim.name == KNNLM.method]
    fair = next((aim for points in plain.values() if (aim := matched(found, points))), None)
    aims = [fair] if fair else searched
    header = (
        "clustering",
        "states",
        *(f"perplexity at FoSS {foss:g}" for foss in SHOWN_FOSS),
        *(f"FoSS while no worse than {_AIMS[aim.name]}" for aim in aims),
    )
    body = [
        [
            names.clustering_name(curve.clustering),
            _states(automata.get(curve.clustering or "")),
            *_levels(curve, points),
            *_crossings(curve, points, aims),
        ]
        for curve, points in plain.items()
    ]
    return Table(header, body)


def seconds_table(rows: Sequence[Row]) -> Table | None:
    """Wall-clock of each point that was run alone, and how much of the retrieval it saved."""
    whole = full_retrieval(rows)
    body = []
    for row in rows:
        if row.seconds is None:
            continue
        spared = whole and row.retrieval is not None and row.method != "lm"
        saved = 1 - (row.retrieval or 0) / whole if whole and spared else None
        place = [names.short(row.tau), names.short(row.sigma), names.number(row.foss, 3)]
        parts = [names.number(row.seconds[part]) for part in _PARTS]
        body.append([*_curve_cells(row.curve), *place, *parts, names.percent(saved)])
    header = ("method", "clustering", "tau", "sigma", "FoSS", *_PARTS, "retrieval saved")
    return Table(header, body, texts=2) if body else None


def pass_table(seconds: Mapping[str, float]) -> Table:
    """Wall-clock of one pass that served all points."""
    return Table(_PARTS, [[names.number(seconds[part]) for part in _PARTS]], texts=0)


def caps_table(caps: Mapping[str, int], positions: int) -> Table:
    """How often each walk hit each cap: `caps` counts by "walk.cap"."""
    walks = {key.rpartition(".")[0] for key in caps}
    kinds = sorted({key.rpartition(".")[2] for key in caps})
    body: list[list[Cell]] = [
        [
            Verbatim(walk),
            *(names.share_of(caps.get(f"{walk}.{kind}"), positions) for kind in kinds),
        ]
        for walk in sorted(walks, key=_walk_order)
    ]
    return Table(("walk", *kinds), body)


def constants_table(methods: Mapping[str, Any]) -> Table:
    """What calibration found for each method: by clustering, and by sigma or mixing below that."""
    found = [
        (method, where, facts)
        for method, calibrated in methods.items()
        for where, facts in _innermost(calibrated)
    ]
    usual = {"lambda": None, "temperature": None, "pointer_weight": None}
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
    return Table(header, body, texts=2)


def _innermost(facts: Mapping[str, Any], where: tuple[str, ...] = ()) -> list[Any]:
    """Each group of plain facts with where it is: (clustering, sigma), ...

    Thresholds, which only AdaptRet has, are a list by FoSS and have a table of their own.
    """
    plain = {name: value for name, value in facts.items() if not isinstance(value, dict)}
    found = [(where, plain)] if plain else []
    for name, inner in facts.items():
        if isinstance(inner, dict) and name != "thresholds":
            shown = f"sigma {name}" if _is_number(name) else name
            found += _innermost(inner, (*where, shown))
    return found


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


def _curve_cells(curve: Curve) -> list[str]:
    return [names.method_name(curve.method), names.clustering_name(curve.clustering)]


def _levels(curve: Curve, points: Points) -> list[str]:
    """Perplexities at the FoSS that are shown; `~` marks one between two points."""
    if curve == LM:
        return [names.number(points[0].perplexity) for _ in SHOWN_FOSS]
    read = [perplexity_at(points, foss) for foss in SHOWN_FOSS]
    return [
        ("~" if one.interpolated else "") + names.number(one.perplexity) if one else names.DASH
        for one in read
    ]


def _against_baseline(points: Points, aim: Target | None) -> list[str]:
    """The baseline that differs from a curve by the automaton alone, and how they compare."""
    row = points[0]
    if aim is None or row.against is None:
        return [names.DASH] * 3
    named = f"{names.method_name(aim.name)}: {names.number(aim.perplexity)}"
    return [named, names.change(row.against if row.foss == 0 else None), _crossing(points, aim)]


def _crossings(curve: Curve, points: Points, aims: Sequence[Target]) -> list[str]:
    ours = curve.method.startswith("retomaton")
    return [_crossing(points, aim) if ours else names.DASH for aim in aims]


def _crossing(points: Points, aim: Target) -> str:
    """Up to which FoSS a target is reached."""
    found = largest_foss(points, aim.perplexity)
    if found.foss is None:
        return "never"
    return f"all of it (to {found.foss:.3f})" if found.kind == "all" else f"{found.foss:.3f}"


def _states(facts: Any) -> str:
    states = facts.get("states") if isinstance(facts, dict) else None
    return f"{states:,}" if isinstance(states, int) else names.DASH


def _walk_order(label: str) -> tuple[str, list[float], str]:
    """By automaton, then by its thresholds as numbers: tau, sigma, share."""
    automaton, _, thresholds = label.partition("@")
    try:
        return automaton, [float(one) for one in thresholds.split(",") if one], label
    except ValueError:
        return automaton, [math.inf], label


def _fact(value: Any) -> str:
    if value is None:
        return names.DASH
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
