"""The figures of a report. Each returns the facts that its caption needs.

One whose data an evaluation does not have is not made.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from retomaton_dist.report.drawing import (
    FOSS,
    curve_style,
    draw_alone,
    draw_band,
    draw_grid,
    draw_legend,
    drawing,
    finish,
    searched_style,
)
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.names import method_name, percent, point_name
from retomaton_dist.report.render import Figure
from retomaton_dist.report.rows import LM, Row, full_retrieval, main_curves
from retomaton_dist.storage.canonical import Json

FOLDER = "figures"
# A figure of all curves could not be read: these are in the tables alone, and the second lot if
# n-grams and cache were mixed in.
LEFT_OUT = {"retomaton+random", "retomaton+pw", "knnlm", "ngram", "lm+cache", "lm+cache+lambda"}
LEFT_OUT_BESIDE_NGRAMS = {
    "adaptret", "knnlm+lambda", "suffix", "suffix+lambda", "retomaton+lambda", "retomaton+suffix",
    "retomaton+suffix+lambda", "lm+ngram", "suffix+ngram+cache", "suffix+ngram+cache+lambda",
}  # fmt: skip
# Up to where ratios are drawn, lengths of runs shown, and positions that a bin must have.
HIGHEST_RATIO, SHOWN_LENGTHS, ENOUGH = 1.25, 20, 20


def shown_curves(evaluation: EvaluationFiles) -> dict[str, list[Row]]:
    """The curves that figures show, by method."""
    found = main_curves(evaluation.rows)
    mixed = any(name.startswith("retomaton") and "+ngram" in name for name in found)
    hidden = LEFT_OUT | (LEFT_OUT_BESIDE_NGRAMS if mixed else set())
    return {name: points for name, points in found.items() if name not in hidden}


def draw_curves(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Perplexity against FoSS."""
    shown = shown_curves(evaluation)
    alone = shown.pop(LM.method, None)
    if not shown and not alone:
        return None
    with drawing(path, size=(8.6, 6)) as axes:
        for name, points in shown.items():
            levels = [row.perplexity for row in points]
            style = curve_style(name, list(shown))
            axes.plot([row.foss for row in points], levels, label=method_name(name), **style)
        if alone:
            draw_alone(axes, alone[0].perplexity, list(shown.values()))
        axes.set(xlabel=FOSS, ylabel="perplexity per token")
        axes.set_title("Perplexity against saved searches: lower and further right is better")
        finish(axes)
    return {}


def draw_ratio(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Perplexity of walks as a ratio to the same mixture without one, with intervals."""
    found = {
        name: [
            row
            for row in points
            # Without any search another baseline is the matched one.
            if row.against is not None and row.clustering and row.baseline == points[0].baseline
        ]
        for name, points in shown_curves(evaluation).items()
    }
    drawn = {name: points for name, points in found.items() if points}
    if not drawn:
        return None
    banded: list[bool] = []
    with drawing(path, size=(8.6, 5)) as axes:
        axes.axhline(1, label="matched baseline, all searches made", zorder=1, **searched_style())
        for name, points in drawn.items():
            style = curve_style(name, list(drawn))
            foss = [row.foss for row in points]
            axes.plot(foss, [row.against for row in points], label=method_name(name), **style)
            intervals = [row.against_interval for row in points]
            banded.append(draw_band(axes, foss, intervals, style["color"]))
        axes.set(xlabel=FOSS, ylabel="perplexity / its baseline's")
        axes.set_ylim(top=min(axes.get_ylim()[1], HIGHEST_RATIO))
        axes.set_title("Against the same mixture without automaton: below 1 is better")
        finish(axes)
    return {"bands": any(banded), "highest": HIGHEST_RATIO}


def draw_wall_clock(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Saved retrieval time against FoSS with y = x, and the whole wall-clock beside it."""
    timed = [row for row in evaluation.rows if row.seconds is not None]
    whole = full_retrieval(timed)
    found = {
        name: points
        for name, points in main_curves(timed).items()
        if name != LM.method and len(points) > 1
    }
    if whole is None or not found:
        return None
    with drawing(path, panels=2, size=(10.4, 4.6)) as (left, right):
        left.plot([0, 1], [0, 1], color="#9ca3af", linestyle=":", label="y = x", zorder=1)
        for name, points in found.items():
            style = curve_style(name, list(found))
            foss = [row.foss for row in points]
            saved = [1 - (row.retrieval or 0) / whole for row in points]
            left.plot(foss, saved, label=method_name(name), **style)
            right.plot(foss, [(row.seconds or {})["total"] for row in points], **style)
        alone = [row.seconds["total"] for row in timed if row.method == "lm" and row.seconds]
        if alone:
            right.axhline(alone[0], color=curve_style("lm", [])["color"], linestyle=":")
            right.annotate("LM alone", (0, alone[0]), (0, 4), textcoords="offset points", size=9)
        right.set_ylim(bottom=0)
        left.set(xlabel=FOSS, ylabel="saved retrieval time", title="Time beyond the LM, saved")
        right.set(xlabel=FOSS, ylabel="seconds", title="Whole wall-clock")
        for axes in (left, right):
            axes.set_xlim(-0.03, 1.03)
            draw_grid(axes)
        draw_legend(left)
    return {}


def draw_runs(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """Histogram of the lengths of search-free runs."""
    runs: Json = evaluation.analysis.get("runs") or {}
    if not runs.get("lengths"):
        return None
    counts = {int(length): int(count) for length, count in runs["lengths"]}
    total, last = sum(counts.values()), min(SHOWN_LENGTHS, max(counts))
    labels = [str(length) for length in range(1, last + 1)]
    heights = [100 * counts.get(length, 0) / total for length in range(1, last + 1)]
    longer = sum(count for length, count in counts.items() if length > last)
    if longer:
        heights.append(100 * longer / total)
        labels.append(f"over\n{last}")
    with drawing(path, size=(8.6, 4.2)) as axes:
        axes.bar(range(len(heights)), heights, color="#0072B2", width=0.78)
        axes.set_xticks(range(len(heights)), labels)
        axes.set(xlabel="length of the run in tokens", ylabel="% of runs")
        share = percent(runs["share_longer_than_1"])
        axes.set_title(f"{share} of the tokens are in runs longer than 1")
        draw_grid(axes, "y")
    return {}


def draw_reliability(evaluation: EvaluationFiles, path: Path) -> Json | None:
    """What probability the LM's favourite was given, against how often it came."""
    found: Sequence[Json] = evaluation.results.get("reliability") or []
    most: dict[str, Json] = {}
    for one in sorted(found, key=lambda one: float(one["foss"])):
        most.setdefault(one["method"], one)
    names = {LM.method, *shown_curves(evaluation)}
    shown = [one for one in found if most[one["method"]] is one and one["method"] in names]
    if not shown:
        return None
    methods = [one["method"] for one in shown]
    with drawing(path, size=(8.6, 6.4)) as axes:
        axes.plot([0, 1], [0, 1], color="#9ca3af", linestyle=":", label="as said", zorder=1)
        for one in shown:
            style = curve_style(one["method"], methods)
            bins = [item for item in one["bins"] if item["tokens"] >= ENOUGH]
            label = f"{method_name(one['method'])}, {point_name(one)}"
            points = [item["said"] for item in bins], [item["came"] for item in bins]
            axes.plot(*points, label=label, **{**style, "marker": style["marker"] or "."})
        axes.set(xlabel="probability that is said", ylabel="how often it came")
        axes.set_title("The LM's favourite token: below the dotted line, too much was promised")
        finish(axes)
    return {"enough": ENOUGH}


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


_FIGURES: Mapping[str, Callable[[EvaluationFiles, Path], Json | None]] = {
    "curves": draw_curves,
    "ratio": draw_ratio,
    "wall_clock": draw_wall_clock,
    "runs": draw_runs,
    "reliability": draw_reliability,
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
