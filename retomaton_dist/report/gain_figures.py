"""The figure of gains: the change of the perplexity in every group of tokens, losses in red."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retomaton_dist.report.drawing import curve_style, draw_grid, draw_legend, drawing
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.gain_sections import groups_of, point_name, titles
from retomaton_dist.report.names import method_name
from retomaton_dist.report.rows import Curve
from retomaton_dist.storage.canonical import Json

BETTER, WORSE = "#e6f4ea", "#fbe9e7"
_POINTS = (("#0072B2", "o"), ("#E69F00", "s"), ("#AA4499", "^"))
# Between the points of one group.
_GAP = 0.22
# Changes beyond this (in per cent) are drawn at the edge, or a tiny group would press all flat.
_FAR = 60.0
# Positions that a bin must have to be drawn.
_ENOUGH = 20


def draw_gains(evaluation: EvaluationFiles, path: Path, method: str) -> str | None:
    """A panel per grouping; in each, the change of every group at every point of the method."""
    gains = [one for one in evaluation.analysis.get("gains") or [] if one["method"] == method]
    found = titles(gains)
    if not found:
        return None
    against = method_name(gains[0]["against"]["method"])
    with drawing(path, panels=3, size=(13.5, 8.4), rows=-(-len(found) // 3)) as panels:
        for axes, title in zip(panels, found, strict=False):
            _draw_groups(axes, gains, title)
        for axes in panels[len(found) :]:
            axes.set_axis_off()
        draw_legend(panels[0])
    return (
        f"Change of the perplexity of {method_name(method)} against {against}, by groups of "
        "tokens: on green ground the method is better, on red ground it is worse. A match is the "
        "longest n-gram that the corpus has and that ends before, or with, the token. Bars are "
        f"95 % intervals over documents; what is beyond {_FAR:.0f} % is drawn at the edge."
    )


def draw_reliability(evaluation: EvaluationFiles, path: Path) -> str | None:
    """What probability the LM's favourite was given, against how often it came."""
    found = evaluation.results.get("reliability") or []
    least = [one for one in found if one["method"] == "lm" or one["foss"] == _least(found, one)]
    if not least:
        return None
    methods = [one["method"] for one in least]
    with drawing(path, size=(8.6, 6.4)) as axes:
        axes.plot([0, 1], [0, 1], color="#9ca3af", linestyle=":", label="as said", zorder=1)
        for one in least:
            style = curve_style(Curve(one["method"], one.get("clustering")), methods)
            bins = [item for item in one["bins"] if item["tokens"] >= _ENOUGH]
            label = f"{method_name(one['method'])}, {point_name(one)}"
            points = [item["said"] for item in bins], [item["came"] for item in bins]
            axes.plot(*points, label=label, **{**style, "marker": style["marker"] or "."})
        axes.set(xlabel="probability that is said", ylabel="how often it came")
        axes.set_title("The LM's favourite token: below the dotted line, too much was promised")
        draw_grid(axes)
        draw_legend(axes)
    return (
        "Positions in bins by what probability a method gives the LM's favourite token, and how "
        f"often that token came. Bins of fewer than {_ENOUGH} positions are left out; methods are "
        "shown where they search most."
    )


def _least(found: Sequence[Json], one: Json) -> float:
    """The smallest FoSS of a method's points."""
    return min(float(other["foss"]) for other in found if other["method"] == one["method"])


def _draw_groups(axes: Any, gains: Sequence[Json], title: str) -> None:
    groups = _names(gains, title)
    most = 1.0
    for number, gain in enumerate(gains):
        colour, marker = _POINTS[number % len(_POINTS)]
        shift = _GAP * (number - (len(gains) - 1) / 2)
        label: str | None = point_name(gain)
        for one in groups_of(gain, title):
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
    axes.set(xlabel="change of the perplexity, %")
    axes.set_title(title, fontsize=11)
    draw_grid(axes, "x")


def _changes(one: Json) -> tuple[float, ...]:
    """Bounds and value in per cent, none of them too far."""
    low, high = one["interval"] or (one["ratio"], one["ratio"])
    return tuple(max(-_FAR, min(100 * (ratio - 1), _FAR)) for ratio in (low, one["ratio"], high))


def _names(gains: Sequence[Json], title: str) -> list[str]:
    found = (one["name"] for gain in gains for one in groups_of(gain, title))
    return list(dict.fromkeys(found))
