"""How methods, clusterings and numbers are written in tables and figures."""

import math

from retomaton_dist.report.rows import Curve, Interval

_METHODS = {
    "lm": "LM alone",
    "knnlm": "kNN-LM",
    "knnlm+wide": "kNN-LM, as many candidates",
    "knnlm+lambda": "kNN-LM + lambda",
    "adaptret": "AdaptRet",
    "suffix": "suffixes alone",
    "retomaton+random": "RetoMaton + suffix, at random",
}
DASH = "–"  # noqa: RUF001 - a dash is meant


def method_name(method: str) -> str:
    """What a method is called; one that is not known here keeps its own name."""
    if method in _METHODS:
        return _METHODS[method]
    plain, _, more = method.partition("+")
    named = _METHODS.get(plain, plain.replace("retomaton", "RetoMaton"))
    return f"{named} + {more.replace('+', ' + ')}" if more else named


def curve_name(curve: Curve) -> str:
    """A method, and its clustering if it has one."""
    named = method_name(curve.method)
    return named if curve.clustering is None else f"{named} ({clustering_name(curve.clustering)})"


def clustering_name(clustering: str) -> str:
    """A clustering's name; `none` says what it means."""
    return "no clustering" if clustering == "none" else clustering


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


def interval(bounds: Interval | None, digits: int = 2) -> str:
    """An interval for a table; a dash if there is none."""
    return DASH if bounds is None else f"{bounds[0]:,.{digits}f} to {bounds[1]:,.{digits}f}"
