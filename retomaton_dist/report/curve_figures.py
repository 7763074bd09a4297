"""Figures of curves: perplexity, tau, clusterings, wall-clock.

Each returns the facts that its caption needs, or None if there is nothing to draw.
"""

from pathlib import Path

from retomaton_dist.report.drawing import (
    FADING,
    FOSS,
    clustering_style,
    curve_style,
    draw_alone,
    draw_band,
    draw_grid,
    draw_legend,
    draw_lines,
    drawing,
    finish,
    searched_style,
)
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.headline import matched
from retomaton_dist.report.names import clustering_name, curve_name, method_name, short
from retomaton_dist.report.rows import LM, by_clustering, curves, full_retrieval, main_curves
from retomaton_dist.storage.canonical import Json

# What is compared with others and not with a baseline, and up to where ratios are drawn.
AT_RANDOM, HIGHEST_RATIO = "retomaton+random", 1.25


def draw_curves(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Perplexity against FoSS: every method, with the main clustering and without."""
    found = main_curves(evaluation.rows)
    if not found:
        return None
    methods = [curve.method for curve in found]
    styled = [
        (points, curve_style(curve, methods), curve_name(curve))
        for curve, points in found.items()
        if curve != LM
    ]
    alone = found.get(LM)
    with drawing(path, size=(8.6, 6)) as axes:
        banded = draw_lines(axes, styled)
        if alone:
            draw_alone(axes, alone[0].perplexity, [points for points, _, _ in styled])
        axes.set(xlabel=FOSS, ylabel="perplexity per token")
        axes.set_title("Perplexity against saved searches: lower and further right is better")
        finish(axes)
    return {"bands": banded}


def draw_ratio(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Perplexity as a ratio to the matched baseline's at FoSS 0, with intervals of the ratio."""
    found = {
        curve: [row for row in points if row.against is not None]
        for curve, points in main_curves(evaluation.rows).items()
        if curve.method not in (*FADING, AT_RANDOM)
    }
    drawn = {curve: points for curve, points in found.items() if points and curve != LM}
    if not drawn:
        return None
    banded: list[bool] = []
    baselines: dict[str, list[str]] = {}
    with drawing(path, size=(8.6, 5)) as axes:
        axes.axhline(1, label="matched baseline at FoSS 0", zorder=1, **searched_style())
        for curve, points in drawn.items():
            style = curve_style(curve, [one.method for one in drawn])
            foss = [row.foss for row in points]
            named = baselines.setdefault(method_name(points[0].baseline or ""), [])
            named += [name for name in [method_name(curve.method)] if name not in named]
            ratios = [row.against for row in points]
            axes.plot(foss, ratios, label=curve_name(curve), **style)
            intervals = [row.against_interval for row in points]
            banded.append(draw_band(axes, foss, intervals, style["color"]))
        axes.set(xlabel=FOSS, ylabel="perplexity / its baseline's at FoSS 0")
        axes.set_ylim(top=min(axes.get_ylim()[1], HIGHEST_RATIO))
        axes.set_title("Against the matched baseline, on the same documents: below 1 is better")
        finish(axes)
    return {"bands": any(banded), "baselines": baselines, "highest": HIGHEST_RATIO}


def draw_tau(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """FoSS and perplexity against tau, with tau's values evenly spaced."""
    alone = [row for row in evaluation.rows if row.sigma is None and row.share is None]
    walked = [row for row in alone if row.tau is not None]
    grid = sorted({row.tau for row in walked if row.tau is not None})
    if len(grid) < 2:
        return None
    shared: set[tuple[tuple[float | None, float], ...]] = set()
    with drawing(path, panels=2, size=(10.4, 4.4)) as (left, right):
        for curve in main_curves(walked):
            points = [row for tau in grid for row in walked if (row.curve, row.tau) == (curve, tau)]
            places = [grid.index(row.tau) for row in points if row.tau is not None]
            style = curve_style(curve, [row.method for row in walked])
            walk = tuple((row.tau, row.foss) for row in points)
            if walk not in shared:
                left.plot(places, [row.foss for row in points], **style)
            shared.add(walk)
            right.plot(places, [row.perplexity for row in points], label=curve_name(curve), **style)
        left.set(xlabel="tau", ylabel=FOSS, ylim=(-0.03, 1.03), title="A larger tau searches more")
        right.set(xlabel="tau", ylabel="perplexity per token", title="... and what that buys")
        for axes in (left, right):
            axes.set_xticks(range(len(grid)), [short(tau) for tau in grid])
            axes.tick_params(axis="x", labelrotation=45 if len(grid) > 10 else 0)
            draw_grid(axes)
        draw_legend(right)
    return {}


def draw_ablation(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Plain RetoMaton with every clustering."""
    found = {
        curve.clustering or "": points for curve, points in by_clustering(evaluation.rows).items()
    }
    if len(found) < 2:
        return None
    styled = [
        (points, clustering_style(name, list(found)), clustering_name(name))
        for name, points in found.items()
    ]
    everything = curves(evaluation.rows)
    fair = next((aim for points in found.values() if (aim := matched(everything, points))), None)
    with drawing(path, size=(8.6, 5)) as axes:
        banded = draw_lines(axes, styled)
        if fair:
            label = f"{method_name(fair.name)}, at FoSS 0"
            axes.axhline(fair.perplexity, label=label, zorder=1, **searched_style())
        axes.set(xlabel=FOSS, ylabel="perplexity per token")
        axes.set_title("RetoMaton with each clustering")
        finish(axes)
    return {"bands": banded}


def draw_wall_clock(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Saved retrieval time against FoSS with y = x, and the whole wall-clock beside it."""
    timed = [row for row in evaluation.rows if row.seconds is not None]
    whole = full_retrieval(timed)
    found = main_curves([row for row in timed if row.method != "lm"])
    if whole is None or not found:
        return None
    methods = [curve.method for curve in found]
    with drawing(path, panels=2, size=(10.4, 4.6)) as (left, right):
        left.plot([0, 1], [0, 1], color="#9ca3af", linestyle=":", label="y = x", zorder=1)
        for curve, points in found.items():
            style = curve_style(curve, methods)
            foss = [row.foss for row in points]
            saved = [1 - (row.retrieval or 0) / whole for row in points]
            left.plot(foss, saved, label=curve_name(curve), **style)
            right.plot(foss, [(row.seconds or {})["total"] for row in points], **style)
        alone = [row.seconds["total"] for row in timed if row.method == "lm" and row.seconds]
        if alone:
            style = curve_style(LM, [])
            right.axhline(alone[0], color=style["color"], linestyle=":")
            right.annotate("LM alone", (0, alone[0]), (0, 4), textcoords="offset points", size=9)
        right.set_ylim(bottom=0)
        left.set(xlabel=FOSS, ylabel="saved retrieval time", title="Time beyond the LM, saved")
        right.set(xlabel=FOSS, ylabel="seconds", title="Whole wall-clock")
        for axes in (left, right):
            axes.set_xlim(-0.03, 1.03)
            draw_grid(axes)
        draw_legend(left)
    return {}
