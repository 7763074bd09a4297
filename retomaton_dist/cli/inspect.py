"""`retomaton inspect`: what a store holds."""

import argparse
import json

from retomaton_dist.cli.command import Command, Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store and the choice of output."""
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(call: Invocation) -> int:
    """Print what the manifest says."""
    from retomaton_dist.describe import as_text, describe
    from storage.store import Store

    facts = describe(Store.open(call["store"]))
    print(json.dumps(facts, indent=2) if call.get("json") else as_text(facts))
    return 0


COMMAND = Command(
    name="inspect",
    summary="Show what a store was made from, its size, and how far each stage has come.",
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton inspect law.store
        retomaton inspect law.store --json | jq .stages.extract.config
    """,
)
