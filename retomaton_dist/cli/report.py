"""`retomaton report`: results and report of an evaluation, made anew from its scores."""

import argparse
from typing import TYPE_CHECKING

from retomaton_dist.cli.command import Command, Invocation

if TYPE_CHECKING:
    from retomaton_dist.evaluation.results import Evaluation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the constants that may be changed afterwards."""
    parser.add_argument("evaluation", metavar="DIR", help="folder that `retomaton eval` has made")
    parser.add_argument("--lambda", dest="weight", metavar="X", type=float, help=_help("weight"))
    parser.add_argument("--temperature", metavar="X", type=float, help=_help("temperature"))
    parser.add_argument("--pointer-weight", metavar="X", type=float, help=_help("pointer weight"))


def _help(what: str) -> str:
    return f"{what} of all methods without a network (default: as calibrated)"


def run(call: Invocation) -> int:
    """Measure anew, write the report and print the table."""
    from retomaton_dist.evaluating import report
    from retomaton_dist.evaluation.results import Overrides

    names = ("weight", "temperature", "pointer_weight")
    show(report(call["evaluation"], Overrides(*(call.get(name) for name in names))))
    return 0


def show(evaluation: "Evaluation") -> None:
    """Print the table of results, and where the report is."""
    from retomaton_dist.evaluation.table import results_table

    print(results_table(evaluation.rows))
    print(f"\nreport: {evaluation.path / 'report.html'}")


COMMAND = Command(
    name="report",
    summary="Make the results and report of an evaluation anew from its per-token scores.",
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton report law.store/evaluations/test-sweep
        retomaton report law.store/evaluations/test-sweep --lambda 0.5 --pointer-weight 4
    """,
)
