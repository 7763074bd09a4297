"""What figures are put together from: the canvas, styles, lines, bands and legends.

A method looks the same in every figure.
"""

import contextlib
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retomaton_dist.report.rows import Interval, Row
from retomaton_dist.storage import files

FOSS = "fraction of saved searches (FoSS)"
# Their curves end at the LM's own perplexity when nothing is searched.
FADING = ("knnlm", "knnlm+wide", "knnlm+lambda", "adaptret")
# Colours that the colour-blind can tell apart (Okabe and Ito), and a marker for each.
_METHODS = {
    "lm": ("#6b7280", ""),
    "knnlm": ("#D55E00", "s"),
    "adaptret": ("#E69F00", "^"),
    "retomaton": ("#0072B2", "o"),
    "retomaton+pw": ("#009E73", "v"),
    "retomaton+lambda": ("#AA4499", "D"),
    "knnlm+wide": ("#CC79A7", "d"),
    "knnlm+lambda": ("#994F00", "p"),
    "suffix": ("#000000", "*"),
    "retomaton+suffix": ("#56B4E9", "P"),
    "retomaton+suffix+lambda": ("#661100", "X"),
    "lm+ngram+cache": ("#374151", "<"),
    "knnlm+ngram+cache": ("#882255", "s"),
    "suffix+ngram+cache": ("#44403c", "*"),
    "retomaton+ngram+cache": ("#117733", "o"),
    "retomaton+suffix+ngram+cache": ("#88A800", "P"),
    "lm+ngram+cache+lambda": ("#374151", ">"),
    "knnlm+ngram+cache+lambda": ("#332288", "s"),
    "suffix+ngram+cache+lambda": ("#44403c", "1"),
    "retomaton+ngram+cache+lambda": ("#004D40", "D"),
    "retomaton+suffix+ngram+cache+lambda": ("#6A7D00", "X"),
}
_OTHERS = (("#997700", "h"), ("#CC3311", "8"), ("#88A0A8", "x"), ("#5D8AA8", "H"))
# Height of a line of a legend, and how many of them a figure has room for as it is.
LINE_INCHES, FREE_LINES = 0.22, 3
_BACK_TO_FRONT = {"lm": 1, **dict.fromkeys(FADING, 2)}


@contextlib.contextmanager
def drawing(path: Path, panels: int = 1, size: tuple[float, float] = (7, 4)) -> Iterator[Any]:
    """Yield the axes of so many panels side by side (one: the axes alone); save them at the end.

    `size` is in inches. The file holds no date or version, so that equal figures are equal bytes.
    """
    # Heavy, and not needed by those who only ask for help.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False).ravel()
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    yield axes[0] if len(axes) == 1 else axes
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    files.write(path, picture.getvalue())


def curve_style(method: str, methods: Sequence[str]) -> dict[str, Any]:
    """How a method's curve is drawn beside those of other `methods`."""
    unknown = [name for name in dict.fromkeys(methods) if name not in _METHODS]
    others = dict(zip(unknown, itertools.cycle(_OTHERS), strict=False))
    colour, marker = (_METHODS | others)[method]
    shape = {"color": colour, "marker": marker, "markersize": 5.5, "markeredgewidth": 1.3}
    return {**shape, "linewidth": 1.8, "zorder": _BACK_TO_FRONT.get(method, 3)}


def draw_band(
    axes: Any, foss: Sequence[float], intervals: Sequence[Interval | None], colour: str
) -> bool:
    """Intervals along a curve, lightly; nothing if one is not known. Say whether they were."""
    known = [bounds for bounds in intervals if bounds]
    if len(known) == len(foss):
        low, high = zip(*known, strict=True)
        axes.fill_between(foss, low, high, color=colour, alpha=0.1, linewidth=0)
    return len(known) == len(foss)


def draw_alone(axes: Any, perplexity: float, drawn: Sequence[Sequence[Row]]) -> None:
    """The LM as a line; where it would press all curves flat, as words beside them."""
    style = {"color": curve_style("lm", [])["color"], "linestyle": (0, (1, 1.5))}
    starts = [points[0].perplexity for points in drawn]
    lasting = [row.perplexity for points in drawn for row in points if row.method not in FADING]
    low, high = min(starts + lasting, default=0), max(starts + lasting, default=0)
    spread = max(high - low, 0.05 * high)
    if not lasting or perplexity <= high + 3 * spread:
        axes.axhline(perplexity, label="LM alone", zorder=1, **style)
        return
    axes.set_ylim(low - 0.35 * spread, high + 1.2 * spread)
    axes.plot([], [], label=f"LM alone: {perplexity:,.1f}, far above", **style)


def searched_style() -> dict[str, Any]:
    """The line at kNN-LM's level."""
    return {"color": curve_style("knnlm", [])["color"], "linestyle": ":"}


def draw_grid(axes: Any, axis: str = "both") -> None:
    """A light grid behind everything."""
    axes.grid(axis=axis, color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_legend(axes: Any) -> None:
    """Below the whole figure, where no curve can be."""
    handles, labels = axes.get_legend_handles_labels()
    columns = _columns(labels, axes.figure.get_figwidth())
    # A long legend makes the figure higher, not the axes flatter.
    lines = math.ceil(len(labels) / columns)
    figure = axes.figure
    figure.set_figheight(figure.get_figheight() + LINE_INCHES * max(0, lines - FREE_LINES))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )


def _columns(labels: Sequence[str], inches: float) -> int:
    """As many columns as fit; columns are filled one after the other."""
    for columns in range(min(4, len(labels)), 1, -1):
        rows = math.ceil(len(labels) / columns)
        parts = [labels[first : first + rows] for first in range(0, len(labels), rows)]
        # Inches that a name of this font takes, with its line.
        if sum(0.7 + 0.075 * max(map(len, part)) for part in parts) <= inches:
            return columns
    return 1


def finish(axes: Any) -> None:
    """Grid and legend."""
    draw_grid(axes)
    draw_legend(axes)
