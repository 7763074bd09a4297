"""Colours, markers and lines: a method looks the same in every figure."""

from collections.abc import Sequence
from typing import Any

from retomaton_dist.report.rows import Curve

# Colours that the colour-blind can tell apart (Okabe and Ito), and a marker for each.
_METHODS = {
    "lm": ("#6b7280", ""),
    "knnlm": ("#D55E00", "s"),
    "adaptret": ("#E69F00", "^"),
    "retomaton": ("#0072B2", "o"),
    "retomaton+pw": ("#009E73", "v"),
    "retomaton+lambda": ("#AA4499", "D"),
}
_OTHERS = (("#44403c", "P"), ("#882255", "X"), ("#117733", "*"), ("#332288", "h"))
_CLUSTERINGS = ("#0072B2", "#CC3311", "#117733", "#AA4499", "#997700", "#332288")
_CLUSTERING_MARKERS = "os^Pv*"
_NONE = ("#56B4E9", "D")
_BACK_TO_FRONT = {"lm": 1, "knnlm": 2, "adaptret": 2}


def curve_style(curve: Curve, methods: Sequence[str]) -> dict[str, Any]:
    """How a curve is drawn beside other `methods`; without clustering: dashes, open markers."""
    method, clustering = curve
    unknown = [name for name in dict.fromkeys(methods) if name not in _METHODS]
    if method in _METHODS:
        colour, marker = _METHODS[method]
    else:
        colour, marker = _OTHERS[unknown.index(method) % len(_OTHERS)]
    style = _style(colour, marker, _BACK_TO_FRONT.get(method, 3))
    if clustering != "none":
        return style
    return {**style, "linestyle": (0, (4, 2)), "markerfacecolor": "white"}


def clustering_style(clustering: str, clusterings: Sequence[str]) -> dict[str, Any]:
    """How a clustering is drawn beside other `clusterings`."""
    if clustering == "none":
        style = _style(*_NONE, 3)
        return {**style, "linestyle": (0, (4, 2)), "markerfacecolor": "white"}
    place = [name for name in clusterings if name != "none"].index(clustering)
    colour = _CLUSTERINGS[place % len(_CLUSTERINGS)]
    return _style(colour, _CLUSTERING_MARKERS[place % len(_CLUSTERING_MARKERS)], 3)


def _style(colour: str, marker: str, order: int) -> dict[str, Any]:
    shape = {"color": colour, "marker": marker, "markersize": 5.5, "markeredgewidth": 1.3}
    return {**shape, "linewidth": 1.8, "zorder": order}
