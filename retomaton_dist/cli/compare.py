"""`retomaton compare`: two evaluations of the same text, point by point."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.errors import BadInput

if TYPE_CHECKING:
    from retomaton_dist.evaluation.results import Evaluation, MeasuredPoint

Row = dict[str, Any]
HEAD = (
    "method", "states", "FoSS A", "FoSS B", "perplexity A", "perplexity B", "B to A",
    "95 % interval",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add both folders."""
    parser.add_argument("first", metavar="A", help="the folder of an evaluation")
    parser.add_argument("second", metavar="B", help="the folder of another one of the same text")


def run(call: Invocation) -> int:
    """Print a line for every point of A, beside B's point of the same method."""
    from retomaton_dist.analysis.bootstrap import why_no_intervals
    from retomaton_dist.evaluation.results import Evaluation, measured_points

    first, second = Evaluation.open(call["first"]), Evaluation.open(call["second"])
    _check_same_text(first, second)
    print(f"A: {first.path}\nB: {second.path}\n")
    print(as_text(measured_points(first), measured_points(second)))
    note = why_no_intervals(first.settings["text"]["documents"])
    if note:
        print(f"\n{note}")
    return 0


def _check_same_text(first: "Evaluation", second: "Evaluation") -> None:
    texts = [(one.text.stage("tokenize").digest, one.text.stage("score").config["documents"])
             for one in (first, second)]  # fmt: skip
    if texts[0] != texts[1]:
        raise BadInput(
            f"{first.path} and {second.path} evaluate different texts, or other documents of one: "
            f"their perplexities cannot be compared"
        )


def as_text(first: "Sequence[MeasuredPoint]", second: "Sequence[MeasuredPoint]") -> str:
    """A line for every point of the first that the second has a method for, as a table."""
    from retomaton_dist.dry_run.tables import aligned

    lines: list[tuple[str, ...]] = [HEAD]
    for one in first:
        other = _partner(one.row, second)
        if other is not None:
            rows, bounds = (one.row, other.row), other.ratio_to(one)
            ratio = rows[1]["perplexity"] / rows[0]["perplexity"] - 1
            lines.append(
                (
                    rows[0]["method"],
                    " / ".join(sorted({row["clustering"] or "" for row in rows})),
                    *(f"{row['foss']:.3f}" for row in rows),
                    *(f"{row['perplexity']:.2f}" for row in rows),
                    f"{ratio:+.2%}",
                    f"{bounds[0] - 1:+.2%} to {bounds[1] - 1:+.2%}" if bounds else "",
                )
            )
    return "\n".join(aligned(lines, texts=(0, 1)))


def _partner(row: Row, others: "Sequence[MeasuredPoint]") -> "MeasuredPoint | None":
    """The point of the same method, and of the same states if there is one, nearest in FoSS."""
    alike = [other for other in others if other.row["method"] == row["method"]]
    alike = [one for one in alike if one.row["clustering"] == row["clustering"]] or alike
    return min(alike, key=lambda other: abs(other.row["foss"] - row["foss"]), default=None)


COMMAND = Command(
    name="compare",
    summary="Compare two evaluations of the same text: perplexity at the nearest FoSS.",
    arguments=add_arguments,
    run=run,
    examples="""
        is the coarse automaton worse?
          retomaton eval law.store --text law/test.en --calibration fast --out fine
          retomaton eval law.store --text law/test.en --calibration coarse --out coarse
          retomaton compare fine coarse
    """,
)
