"""The figures of a report. One whose data an evaluation does not have is not made."""

from collections.abc import Callable, Mapping
from pathlib import Path

from retomaton_dist.report.blocks import Figure
from retomaton_dist.report.curve_figures import (
    draw_ablation,
    draw_curves,
    draw_ratio,
    draw_tau,
    draw_wall_clock,
)
from retomaton_dist.report.folder import Evaluation
from retomaton_dist.report.text_figures import draw_overlap, draw_runs

FOLDER = Path("figures")

_FIGURES: Mapping[str, Callable[[Evaluation, Path], str | None]] = {
    "curves": draw_curves,
    "ratio": draw_ratio,
    "tau": draw_tau,
    "ablation": draw_ablation,
    "wall_clock": draw_wall_clock,
    "runs": draw_runs,
    "overlap": draw_overlap,
}


def draw_figures(evaluation: Evaluation, out: Path) -> dict[str, Figure]:
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
