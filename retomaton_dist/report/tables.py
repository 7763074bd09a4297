"""Tables of curves, constants and settings."""

import json
import math
import re
from collections.abc import Mapping, Sequence
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
from retomaton_dist.report.rows import KNNLM, LM, Curve, Row, by_clustering, curves

SHOWN_FOSS = (0.0, 0.5)
LONGEST_FACT = 400
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
    return Table(header, body, texts=2)


def _innermost(facts: Mapping[str, Any], where: tuple[str, ...] = ()) -> list[Any]:
    """Each group of plain facts with where it is: (clustering, sigma), ...

    Thresholds, which only AdaptRet has, are a list by FoSS and have a table of their own.
    """
    plain = {name: value for name, value in facts.items() if not isinstance(value, dict)}
    found = [(where, plain)] if plain else []
    for name, inner in facts.items():
        if isinstance(inner, dict) and name != "thresholds":
            # A clustering comes first, whatever its name.
            shown = re.sub(r"^(inf|[\d.]+)$", r"sigma \1", name) if where else name
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
