"""The figure of gains: the change of the perplexity in every group of tokens, losses in red."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retomaton_dist.report.drawing import draw_grid, draw_legend, drawing
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.gain_sections import point_name
from retomaton_dist.report.names import method_name
from storage.canonical import Json

BETTER, WORSE = "#e6f4ea", "#fbe9e7"
_POINTS = (("#0072B2", "o"), ("#E69F00", "s"), ("#AA4499", "^"))
# Between the points of one group.
_GAP = 0.22
# Changes beyond this (in per cent) are drawn at the edge, or a tiny group would press all flat.
_FAR = 60.0


def draw_gains(evaluation: EvaluationFiles, path: Path, method: str) -> str | None:
    """A panel per grouping; in each, the change of every group at every point of the method."""
    gains = [one for one in evaluation.analysis.get("gains") or [] if one["method"] == method]
    if not gains or not gains[0]["groups"]:
        return None
    titles = list(gains[0]["groups"])
    against = method_name(gains[0]["against"]["method"])
    with drawing(path, panels=3, size=(13.5, 8.4), rows=-(-len(titles) // 3)) as panels:
        for axes, title in zip(panels, titles, strict=False):
            _draw_groups(axes, gains, title)
        for axes in panels[len(titles) :]:
            axes.set_axis_off()
        draw_legend(panels[0])
    return (
        f"Change of the perplexity of {method_name(method)} against {against}, by groups of "
        "tokens: on green ground the method is better, on red ground it is worse. Bars are 95 % "
        f"intervals over documents; what is beyond {_FAR:.0f} % is drawn at the edge."
    )


def _draw_groups(axes: Any, gains: Sequence[Json], title: str) -> None:
    groups = _names(gains, title)
    most = 1.0
    for number, gain in enumerate(gains):
        colour, marker = _POINTS[number % len(_POINTS)]
        shift = _GAP * (number - (len(gains) - 1) / 2)
        label: str | None = point_name(gain)
        for one in gain["groups"].get(title, ()):
            low, middle, high = _changes(one)
            place = groups.index(one["name"]) + shift
            axes.plot([low, high], [place, place], color=colour, linewidth=1.4, zorder=2)
            axes.plot(middle, place, marker, color=colour, label=label, linestyle="", zorder=3)
            label = None
            most = max(most, abs(low), abs(high))
    edge = 1.08 * most
    axes.axvspan(-edge, 0, color=BETTER, zorder=0)
    axes.axvspan(0, edge, color=WORSE, zorder=0)
    axes.set_xlim(-edge, edge)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_yticks(range(len(groups)), groups)
    axes.set(xlabel="change of the perplexity, %", title=title)
    draw_grid(axes, "x")


def _changes(one: Json) -> tuple[float, ...]:
    """Bounds and value in per cent, none of them too far."""
    low, high = one["interval"] or (one["ratio"], one["ratio"])
    return tuple(max(-_FAR, min(100 * (ratio - 1), _FAR)) for ratio in (low, one["ratio"], high))


def _names(gains: Sequence[Json], title: str) -> list[str]:
    found = (one["name"] for gain in gains for one in gain["groups"].get(title, ()))
    return list(dict.fromkeys(found))
