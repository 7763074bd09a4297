"""`retomaton inspect`: what a store holds."""

import argparse
import json
import sys
from pathlib import Path

from retomaton_dist.cli.command import Command, Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store and the choice of output."""
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    parser.add_argument(
        "--histograms", metavar="DIR", help="also draw the sizes of each clustering's states as PNG"
    )


def run(call: Invocation) -> int:
    """Print what the manifest says."""
    from retomaton_dist.api.describe import as_text, describe
    from retomaton_dist.storage.store import Store

    facts = describe(Store.open(call["store"]))
    print(json.dumps(facts, indent=2) if call.get("json") else as_text(facts))
    if call.get("histograms"):
        draw_histograms(call["store"], Path(call["histograms"]))
    return 0


def draw_histograms(store: str, folder: Path) -> None:
    """Write a PNG per clustering that is done, and say where."""
    from retomaton_dist.clustering.statistics import tally_of
    from retomaton_dist.report.figures import plot_state_sizes
    from retomaton_dist.storage.store import Store

    opened = Store.open(store)
    for name in opened.finished("cluster"):
        states, facts = opened.states(name), opened.stage(f"cluster/{name}").facts
        tally = {1: states.count} if states.algorithm == "none" else tally_of(states.sizes)
        path = folder / f"{name}.png"
        plot_state_sizes(tally, facts["median"], f"{name}: {states.count:,} states", path)
        print(path, file=sys.stderr)


COMMAND = Command(
    name="inspect",
    summary="Show what a store was made from, its size, and how far each stage has come.",
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton inspect law.store
        retomaton inspect law.store --histograms figures
        retomaton inspect law.store --json | jq .stages.extract.config
    """,
)
