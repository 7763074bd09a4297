"""`retomaton prune`: set free what a finished store no longer needs."""

import argparse

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store, and what is to go."""
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument(
        "--keys",
        action="store_true",
        help="delete the keys for good: walking needs only an automaton's codes. Clustering, "
        "indexing and other codecs need the keys, so finish those first",
    )
    parser.add_argument(
        "--calibration", metavar="NAME", help="delete a calibration; its name is free then"
    )


def run(call: Invocation) -> int:
    """Delete what was named and say how much room that made."""
    from retomaton_dist.storage.prune import prune_calibration, prune_keys
    from retomaton_dist.storage.store import Store, writing

    calibration: str | None = call.get("calibration")
    if not call.get("keys") and calibration is None:
        raise BadInput("nothing was named to be dropped; say --keys or --calibration NAME")
    Store.open(call["store"])
    with writing(call["store"]) as writer:
        if calibration is not None:
            freed = prune_calibration(writer, calibration)
            print(f"calibration {calibration!r} deleted: {freed:,} bytes set free")
        if call.get("keys"):
            freed = prune_keys(writer)
            print(f"keys deleted: {freed:,} bytes set free")
    return 0


COMMAND = Command(
    name="prune",
    summary="Drop the keys of a store once an automaton with pq codes exists, or a calibration.",
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton prune law.store --keys                once `retomaton compile law.store` is done
        retomaton prune law.store --calibration fast    to calibrate anew under this name
    """,
)
