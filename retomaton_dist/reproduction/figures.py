"""Figures with the paper's curves on the left and ours on the right."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retomaton_dist.report.drawing import (
    FADING,
    FOSS,
    clustering_style,
    curve_style,
    draw_grid,
    draw_legend,
    drawing,
)
from retomaton_dist.report.names import clustering_name, curve_name
from retomaton_dist.report.render import Figure
from retomaton_dist.report.rows import LM, Curve, Row, curves, main_curves
from retomaton_dist.reproduction.findings import per_state
from retomaton_dist.reproduction.paper import SAVED_TIME
from retomaton_dist.reproduction.wall_clock import saved_times

FOLDER = "figures"
# Methods of the paper: what it has no curve for is in the evaluation's own report.
PAPERS = ("knnlm", "adaptret", "retomaton")
SIZE = (11.4, 5.0)


def draw_compared(paper: Sequence[Row], ours: Sequence[Row], out: Path, name: str) -> Figure:
    """Perplexity against FoSS: the paper's methods, there and here."""
    path = f"{FOLDER}/{name}.png"
    with drawing(out / path, panels=2, size=SIZE) as panels:
        for axes, rows, title in zip(panels, (paper, ours), ("the paper", "here"), strict=True):
            _draw_curves(axes, main_curves(rows), title)
        draw_legend(panels[1])
    caption = (
        "Perplexity against saved searches, in the paper and here. The scales differ: texts, "
        "tokens and language models are others."
    )
    return Figure(path, {"caption": caption})


def _draw_curves(axes: Any, found: Mapping[Curve, Sequence[Row]], title: str) -> None:
    shown = {curve: points for curve, points in found.items() if curve.method in PAPERS}
    for curve, points in shown.items():
        style = curve_style(curve, PAPERS)
        levels = [row.perplexity for row in points]
        axes.plot([row.foss for row in points], levels, label=curve_name(curve), **style)
    _keep_low_curves_apart(axes, shown)
    alone = [f"; LM alone {row.perplexity:,.2f}" for row in found.get(LM, [])[:1]]
    axes.set(xlabel=FOSS, ylabel="perplexity", xlim=(-0.03, 1.03), title="".join([title, *alone]))
    draw_grid(axes)


def _keep_low_curves_apart(axes: Any, shown: Mapping[Curve, Sequence[Row]]) -> None:
    """Let curves that end at the LM's level leave the panel where they would press others flat."""
    lasting = [row.perplexity for points in shown.values() for row in points[:1]]
    for curve, points in shown.items():
        lasting += [row.perplexity for row in points if curve.method not in FADING]
    if lasting:
        spread = max(max(lasting) - min(lasting), 0.05 * max(lasting))
        low, high = min(lasting) - 0.2 * spread, max(lasting) + spread
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, low), min(top, high))


def draw_clusterings(paper: Sequence[Row], ours: Sequence[Row], out: Path, name: str) -> Figure:
    """RetoMaton with every clustering, there and here."""
    path = f"{FOLDER}/{name}.png"
    with drawing(out / path, panels=2, size=(SIZE[0], 5.8)) as panels:
        for axes, rows, title in zip(panels, (paper, ours), ("the paper", "here"), strict=True):
            found = [curve for curve in curves(rows) if curve.method == "retomaton"]
            names = sorted((curve.clustering or "" for curve in found), key=_order)
            for clustering in names:
                points = curves(rows)[Curve("retomaton", clustering)]
                style, label = clustering_style(clustering, names), written(clustering)
                levels = [row.perplexity for row in points]
                axes.plot([row.foss for row in points], levels, label=label, **style)
            axes.set(xlabel=FOSS, ylabel="perplexity", title=title)
            axes.legend(frameon=False, fontsize=8)
            draw_grid(axes)
    caption = "RetoMaton by clustering, in the paper and here. The scales differ."
    return Figure(path, {"caption": caption})


def _order(name: str) -> tuple[bool, int]:
    """k-means from coarse to fine, then the others."""
    return not name.startswith("kmeans"), -per_state(name) if name.startswith("kmeans") else 0


def written(clustering: str) -> str:
    """A clustering by what it does; numbers are entries per state."""
    if clustering.startswith("kmeans"):
        return f"k-means, {per_state(clustering):,} per state"
    return clustering_name(clustering)


def draw_saved_time(rows: Sequence[Row], out: Path) -> Figure | None:
    """Saved wall-clock against FoSS: the paper's curves and ours."""
    found = saved_times(rows)
    if not found:
        return None
    path = f"{FOLDER}/wall-clock.png"
    greys = ("#374151", "#9ca3af", "#c4b5a0")
    with drawing(out / path, size=(8.6, 6)) as axes:
        axes.plot([0, 1], [0, 1], color="#9ca3af", linestyle=":", label="y = x")
        for (name, points), grey in zip(SAVED_TIME.items(), greys, strict=True):
            axes.plot(*zip(*points, strict=True), label=name, color=grey, linestyle="--")
        for curve, saved in found.items():
            style = curve_style(curve, PAPERS)
            foss = [point.foss for point in saved]
            label = f"here, {curve_name(curve)}"
            axes.plot(foss, [point.whole for point in saved], label=label, **style)
        axes.set(xlabel=FOSS, ylabel="fraction of kNN-LM's wall-clock that is saved")
        draw_grid(axes)
        draw_legend(axes)
    caption = "Wall-clock saved against searches saved, relative to kNN-LM."
    return Figure(path, {"caption": caption})
