"""What figures of curves are put together from."""

import math
from collections.abc import Sequence
from typing import Any

from retomaton_dist.report.rows import Interval, Row
from retomaton_dist.report.styles import curve_style

Styled = tuple[Sequence[Row], dict[str, Any], str]
"""A curve's points, how it is drawn, and its name."""

FOSS = "fraction of saved searches (FoSS)"
# Their curves end at the LM's own perplexity when nothing is searched.
FADING = ("knnlm", "adaptret")


def draw_lines(axes: Any, styled: Sequence[Styled]) -> bool:
    """Draw curves, and their intervals unless these would hide them; say whether they did."""
    for points, style, label in styled:
        foss = [row.foss for row in points]
        axes.plot(foss, [row.perplexity for row in points], label=label, **style)
    values = [row.perplexity for points, _, _ in styled for row in points]
    widths = [
        row.interval[1] - row.interval[0]
        for points, _, _ in styled
        for row in points
        if row.interval
    ]
    shown = bool(widths) and max(widths) <= (max(values) - min(values)) / 2
    if shown:
        for points, style, _ in styled:
            intervals = [row.interval for row in points]
            draw_band(axes, [row.foss for row in points], intervals, style["color"])
    return shown


def draw_band(
    axes: Any, foss: Sequence[float], intervals: Sequence[Interval | None], colour: str
) -> bool:
    """Intervals along a curve, lightly; nothing if one is not known. Say whether they were."""
    known = [bounds for bounds in intervals if bounds]
    if len(known) == len(foss):
        low, high = zip(*known, strict=True)
        axes.fill_between(foss, low, high, color=colour, alpha=0.1, linewidth=0)
    return len(known) == len(foss)


def about_bands(shown: bool) -> str:
    """What a caption says about the intervals."""
    if shown:
        return "Bands are 95 % intervals over documents."
    return "Intervals over documents are not drawn here: wider than the figure, or not known."


def draw_alone(axes: Any, perplexity: float, drawn: Sequence[Sequence[Row]]) -> None:
    """The LM as a line; where it would press all curves flat, as words beside them."""
    style = {"color": curve_style(("lm", None), [])["color"], "linestyle": (0, (1, 1.5))}
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
    return {"color": curve_style(("knnlm", None), [])["color"], "linestyle": ":"}


def draw_grid(axes: Any, axis: str = "both") -> None:
    """A light grid behind everything."""
    axes.grid(axis=axis, color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_legend(axes: Any) -> None:
    """Below the whole figure, where no curve can be."""
    handles, labels = axes.get_legend_handles_labels()
    columns = _columns(labels, axes.figure.get_figwidth())
    axes.figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def _columns(labels: Sequence[str], inches: float) -> int:
    """As many columns as fit; columns are filled one after the other."""
    for columns in range(min(4, len(labels)), 1, -1):
        rows = math.ceil(len(labels) / columns)
        parts = [labels[first : first + rows] for first in range(0, len(labels), rows)]
        # Inches that a name of this font takes, with its line.
        if sum(1.0 + 0.1 * max(map(len, part)) for part in parts) <= inches:
            return columns
    return 1


def finish(axes: Any) -> None:
    """Grid and legend."""
    draw_grid(axes)
    draw_legend(axes)
