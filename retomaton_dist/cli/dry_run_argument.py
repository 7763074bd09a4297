"""The switch that only estimates, and how long it may measure."""

import argparse
import math

from retomaton_dist.cli.command import Invocation
from retomaton_dist.errors import BadInput


def add_dry_run(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --dry-run, and the seconds that it takes."""
    parser.add_argument("--dry-run", action="store_true", help=f"{what}; nothing is written")
    parser.add_argument(
        "--dry-run-seconds",
        metavar="X",
        help="that a dry run measures at most, besides starting workers and loading the model; "
        "what it has no time for is derived from what it saw (default: 60)",
    )


def budget_of(call: Invocation) -> tuple[float, ...]:
    """The seconds that were given, or none."""
    given = call.get("dry_run_seconds")
    if given is None:
        return ()
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise BadInput(f"--dry-run-seconds {given}: must be a number above 0")
    return (seconds,)
