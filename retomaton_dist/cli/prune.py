"""`retomaton prune`: set free what a store no longer needs."""

import argparse
from pathlib import Path

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.errors import BadInput

# What is dropped by name, with its help.
NAMED = {
    "evaluation": "delete an evaluation of STORE/evaluations; its name is free then",
    "calibration": "delete a calibration",
    "automaton": "delete an automaton, and its codec if no other has it",
    "states": "delete a clustering that no automaton was compiled from",
    "index": "delete a search index that no calibration uses",
    "ngrams": "delete an n-gram model that no calibration uses",
    "suffixes": "delete a suffix index that no n-gram model and no calibration uses",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store, and what is to go."""
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument(
        "--keys",
        action="store_true",
        help="delete the keys for good: walking needs only an automaton's codes. Clustering, "
        "indexing and other codecs need the keys, so finish those first",
    )
    for name, about in NAMED.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=about)


def run(call: Invocation) -> int:
    """Delete what was named and say how much room that made."""
    named = {kind: call[kind] for kind in NAMED if call.get(kind) is not None}
    if not call.get("keys") and not named:
        flags = ", ".join(f"--{kind} NAME" for kind in NAMED)
        raise BadInput(f"nothing was named to be dropped; say --keys, {flags}")
    from retomaton_dist.storage.prune import prune_evaluation, prune_keys, prune_part
    from retomaton_dist.storage.store import Store, writing

    Store.open(call["store"])
    with writing(call["store"]) as writer:
        for kind, name in named.items():
            if kind == "evaluation":
                freed = prune_evaluation(Path(writer.path), name)
            else:
                freed = prune_part(writer, kind, name)
            print(f"{kind} {name!r} deleted: {freed:,} bytes set free")
        if call.get("keys"):
            freed = prune_keys(writer)
            print(f"keys deleted: {freed:,} bytes set free")
    return 0


COMMAND = Command(
    name="prune",
    summary="Delete parts of a store by name, or its keys once an automaton with pq codes exists.",
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton prune law.store --keys                once `retomaton compile law.store` is done
        retomaton prune law.store --calibration fast    to calibrate anew under this name
        retomaton prune law.store --automaton coarse --states coarse

        killed? the same command again deletes what is left.
    """,
)
