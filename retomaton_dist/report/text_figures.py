"""Figures of the text: search-free runs, and n-grams that the corpus has."""

from collections.abc import Sequence
from pathlib import Path

from retomaton_dist.plots import drawing
from retomaton_dist.report.drawn import draw_grid, finish
from retomaton_dist.report.folder import Evaluation
from retomaton_dist.report.names import percent
from storage.canonical import Json

SHOWN_LENGTHS = 20


def draw_runs(evaluation: Evaluation, path: Path) -> str | None:
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


def draw_overlap(evaluation: Evaluation, path: Path) -> str | None:
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
