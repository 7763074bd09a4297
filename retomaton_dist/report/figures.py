"""The figures of a report, those of curves apart; and how all of them are made.

One whose data an evaluation does not have is not made.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from retomaton_dist.report.curve_figures import (
    draw_ablation,
    draw_curves,
    draw_ratio,
    draw_tau,
    draw_wall_clock,
)
from retomaton_dist.report.data import gains_figure, groupings_of, groups_of
from retomaton_dist.report.drawing import curve_style, draw_grid, draw_legend, drawing, finish
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.names import method_name, percent, point_name
from retomaton_dist.report.render import Figure
from retomaton_dist.report.rows import Curve
from retomaton_dist.storage.canonical import Json

FOLDER = "figures"
SHOWN_LENGTHS = 20
# Methods whose gains are drawn; tables have those of others, too.
GAINING = ("retomaton", "retomaton+suffix", "retomaton+lambda")
BETTER, WORSE = "#e6f4ea", "#fbe9e7"
_POINTS = (("#0072B2", "o"), ("#E69F00", "s"), ("#AA4499", "^"))
# Between the points of one group.
_GAP = 0.22
# Changes beyond this (in per cent) are drawn at the edge, or a tiny group would press all flat.
_FAR = 60.0
# Positions that a bin must have to be drawn.
_ENOUGH = 20


def draw_runs(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Histogram of the lengths of search-free runs."""
    runs: Json = evaluation.analysis.get("runs") or {}
    if not runs.get("lengths"):
        return None
    counts = {int(length): int(count) for length, count in runs["lengths"]}
    total = sum(counts.values())
    last = min(SHOWN_LENGTHS, max(counts))
    longer = sum(count for length, count in counts.items() if length > last)
    heights = [100 * counts.get(length, 0) / total for length in range(1, last + 1)]
    labels = [str(length) for length in range(1, last + 1)]
    if longer:
        heights.append(100 * longer / total)
        labels.append(f"over\n{last}")
    share = runs.get("share_longer_than_1")
    with drawing(path, size=(8.6, 4.2)) as axes:
        axes.bar(range(len(heights)), heights, color="#0072B2", width=0.78)
        axes.set_xticks(range(len(heights)), labels)
        axes.set(xlabel="length of the run in tokens", ylabel="% of runs")
        axes.set_title(f"{percent(share)} of the tokens are in runs longer than 1")
        draw_grid(axes, "y")
    return {}


def draw_overlap(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """How much of the text's n-grams the corpus has."""
    found: Sequence[Json] = evaluation.analysis.get("overlap") or []
    if not found:
        return None
    kinds = {
        "occurrences": {"color": "#0072B2", "marker": "o"},
        "types": {"color": "#E69F00", "marker": "s"},
    }
    with drawing(path, size=(8.6, 4.2)) as axes:
        for kind, style in kinds.items():
            seen = [row for row in found if row[kind]]
            shares = [100 * row[f"{kind}_seen"] / row[kind] for row in seen]
            axes.plot([row["n"] for row in seen], shares, label=kind, linewidth=1.8, **style)
        axes.set_xticks([row["n"] for row in found])
        axes.set(xlabel="n", ylabel="% that the corpus has, too", ylim=(0, 103))
        axes.set_title("n-grams of the text that appear in the corpus")
        finish(axes)
    return {}


def plot_state_sizes(tally: Mapping[int, int], median: float, title: str, path: Path) -> None:
    """How many states have how many members, both on logarithmic scales; `tally` is by size."""
    with drawing(path) as axes:
        filled = {size: states for size, states in tally.items() if size}
        bins = np.unique(np.geomspace(1, max(2, *filled) + 1, 41).astype(int))
        axes.hist(
            list(filled),
            bins=bins.tolist(),
            weights=list(filled.values()),
            color="#3b6ea5",
            edgecolor="white",
        )
        axes.set(xscale="log", yscale="log", xlabel="members", ylabel="states", title=title)
        axes.axvline(max(median, 1), color="#c0504d", linestyle="--", label=f"median {median:g}")
        axes.legend(frameon=False)


def draw_gains(evaluation: EvaluationFiles, path: Path, method: str) -> Json | None:
    """A panel per grouping; in each, the change of every group at every point of the method."""
    gains = [one for one in evaluation.analysis.get("gains") or [] if one["method"] == method]
    found = groupings_of(gains)
    if not found:
        return None
    with drawing(path, panels=3, size=(13.5, 8.4), rows=-(-len(found) // 3)) as panels:
        for axes, title in zip(panels, found, strict=False):
            _draw_groups(axes, gains, title)
        for axes in panels[len(found) :]:
            axes.set_axis_off()
        draw_legend(panels[0])
    return {"far": _FAR}


def draw_reliability(evaluation: EvaluationFiles, path: Path) -> Json | None:
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
    return {"enough": _ENOUGH}


def _least(found: Sequence[Json], one: Json) -> float:
    """The smallest FoSS of a method's points."""
    return min(float(other["foss"]) for other in found if other["method"] == one["method"])


def _draw_groups(axes: Any, gains: Sequence[Json], title: str) -> None:
    groups = list(dict.fromkeys(name for gain in gains for name in groups_of(gain, title)))
    most = 1.0
    for number, gain in enumerate(gains):
        colour, marker = _POINTS[number % len(_POINTS)]
        shift = _GAP * (number - (len(gains) - 1) / 2)
        label: str | None = point_name(gain)
        for one in groups_of(gain, title).values():
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


_FIGURES: Mapping[str, Callable[[EvaluationFiles, Path], Json | None]] = {
    "curves": draw_curves,
    "ratio": draw_ratio,
    "tau": draw_tau,
    "ablation": draw_ablation,
    "wall_clock": draw_wall_clock,
    "runs": draw_runs,
    "overlap": draw_overlap,
    "reliability": draw_reliability,
    **{gains_figure(method): partial(draw_gains, method=method) for method in GAINING},
}


def draw_figures(evaluation: EvaluationFiles, out: Path) -> dict[str, Figure]:
    """Draw what can be drawn into `out`/figures; return the figures by their names."""
    made: dict[str, Figure] = {}
    for name, draw in _FIGURES.items():
        path = f"{FOLDER}/{name}.png"
        facts = draw(evaluation, out / path)
        if facts is None:
            (out / path).unlink(missing_ok=True)
        else:
            made[name] = Figure(path, facts)
    return made
