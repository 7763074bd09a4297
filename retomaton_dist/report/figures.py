"""The figures of a report, those of curves apart; and how all of them are made.

One whose data an evaluation does not have is not made.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from retomaton_dist.report.curve_figures import (
    draw_ablation,
    draw_curves,
    draw_ratio,
    draw_tau,
    draw_wall_clock,
)
from retomaton_dist.report.drawing import draw_grid, drawing, finish
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.gain_figures import draw_gains, draw_reliability
from retomaton_dist.report.gain_sections import figure_name
from retomaton_dist.report.names import percent
from retomaton_dist.report.page import Figure
from retomaton_dist.storage.canonical import Json

FOLDER = Path("figures")
SHOWN_LENGTHS = 20
# Methods whose gains are drawn; tables have those of others, too.
GAINING = ("retomaton", "retomaton+suffix", "retomaton+lambda")


def draw_runs(evaluation: EvaluationFiles, path: Path) -> str | None:
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
    return "Lengths of search-free runs: the tokens that one search serves, its own included."


def draw_overlap(evaluation: EvaluationFiles, path: Path) -> str | None:
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
    return "Share of the text's n-grams that the corpus has: of distinct ones and of occurrences."


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


_FIGURES: Mapping[str, Callable[[EvaluationFiles, Path], str | None]] = {
    "curves": draw_curves,
    "ratio": draw_ratio,
    "tau": draw_tau,
    "ablation": draw_ablation,
    "wall_clock": draw_wall_clock,
    "runs": draw_runs,
    "overlap": draw_overlap,
    "reliability": draw_reliability,
    **{figure_name(method): partial(draw_gains, method=method) for method in GAINING},
}


def draw_figures(evaluation: EvaluationFiles, out: Path) -> dict[str, Figure]:
    """Draw what can be drawn into `out`/figures; return the figures by their names."""
    made: dict[str, Figure] = {}
    for name, draw in _FIGURES.items():
        path = FOLDER / f"{name}.png"
        caption = draw(evaluation, out / path)
        if caption is None:
            (out / path).unlink(missing_ok=True)
        else:
            made[name] = Figure(path, caption)
    return made
