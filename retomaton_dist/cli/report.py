"""`retomaton report`: results and report of an evaluation, made anew from its scores."""

import argparse
from typing import TYPE_CHECKING

from retomaton_dist.cli.command import Command, Invocation

if TYPE_CHECKING:
    from retomaton_dist.evaluation.results import Evaluation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder."""
    parser.add_argument("evaluation", metavar="DIR", help="folder that `retomaton eval` has made")


def run(call: Invocation) -> int:
    """Measure anew, write the report and print the table."""
    settings = call.group("report")
    from retomaton_dist.api.evaluate import run_report

    show(run_report(call["evaluation"], settings))
    return 0


def show(evaluation: "Evaluation") -> None:
    """Print the results, and where the report is."""
    from retomaton_dist.cli.results import results_as_text

    print(results_as_text(evaluation))
    print(f"\nreport: {evaluation.path / 'report.html'}")


COMMAND = Command(
    name="report",
    summary="Make the results and report of an evaluation anew from its per-token scores.",
    groups=("report",),
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton report law.store/evaluations/test.en-sweep-9b1d3c52
        retomaton report law.store/evaluations/test.en-sweep-9b1d3c52 --lambda 0.5
        retomaton report law.store/evaluations/test.en-sweep-9b1d3c52 --retrain 5
    """,
)
