"""How methods, clusterings and numbers are written in tables, figures and sentences."""

import math
from collections.abc import Sequence

from retomaton_dist.report.rows import Curve
from retomaton_dist.storage.canonical import Json

_METHODS = {
    "lm": "LM alone",
    "ngram": "n-grams alone",
    "suffix": "suffixes alone",
    "knnlm+wide": "kNN-LM, as many candidates",
    "retomaton+random": "RetoMaton + suffix, at random",
}
_PARTS = {
    "lm": "LM",
    "knnlm": "kNN-LM",
    "adaptret": "AdaptRet",
    "retomaton": "RetoMaton",
    "ngram": "n-grams",
}
DASH = "–"  # noqa: RUF001 - a dash is meant


def method_name(method: str | None) -> str:
    """What a method is called; one that is not known here keeps its own name."""
    if method is None:
        return DASH
    parts = method.split("+")
    return _METHODS.get(method) or " + ".join(_PARTS.get(part, part) for part in parts)


def clustering_name(clustering: str | None) -> str:
    """A clustering's name; `none` says what it means."""
    if clustering is None:
        return DASH
    return "no clustering" if clustering == "none" else clustering


def curve_name(curve: Curve) -> str:
    """A method, and its clustering if it has one."""
    named = method_name(curve.method)
    return named if curve.clustering is None else f"{named} ({clustering_name(curve.clustering)})"


def point_name(point: Json) -> str:
    """A point of a method's curve by its FoSS and thresholds."""
    given = {name: point[name] for name in ("tau", "sigma") if point[name] is not None}
    thresholds = ", ".join(f"{name} {short(float(value))}" for name, value in given.items())
    return f"FoSS {point['foss']:.2f}" + (f" ({thresholds})" if thresholds else "")


def number(value: float | None, digits: int = 2) -> str:
    """A number for a table; a dash if there is none."""
    return DASH if value is None else f"{value:,.{digits}f}"


def short(value: float | None) -> str:
    """A setting with no more digits than it needs; a dash if there is none."""
    if value is None:
        return DASH
    return "inf" if math.isinf(value) else f"{value:.4g}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent; a dash if there is none."""
    return DASH if share is None else f"{100 * share:.{digits}f} %"


def share_of(part: int | None, whole: int) -> str:
    """A part of a whole in per cent; a dash if there is none."""
    return percent(part / whole) if part is not None and whole else DASH


def change(ratio: float | None) -> str:
    """A ratio of perplexities as a change: below 0 is better."""
    return DASH if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def interval(bounds: Sequence[float] | None, digits: int = 2) -> str:
    """An interval for a table; a dash if there is none."""
    return DASH if bounds is None else f"{bounds[0]:,.{digits}f} to {bounds[1]:,.{digits}f}"


def change_interval(bounds: Sequence[float] | None) -> str:
    """An interval of a ratio, as changes; a dash if there is none."""
    return DASH if bounds is None else f"{change(bounds[0])} to {change(bounds[1])}"


def change_with(ratio: float | None, bounds: Sequence[float] | None) -> str:
    """A ratio as a change with its interval, if that is known."""
    return change(ratio) + (f" ({change_interval(bounds)})" if bounds else "")
