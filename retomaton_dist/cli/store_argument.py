"""The argument that most commands share: which store."""

import argparse

from retomaton_dist.cli.command import Invocation
from retomaton_dist.errors import BadInput


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the store's folder; a TOML file may name it instead."""
    parser.add_argument("store", metavar="STORE", nargs="?", help="the store's folder")


def store_of(call: Invocation) -> str:
    """The store that was named on the command line or, failing that, in the file."""
    store = call.get("store") or call.file.get("store")
    if not store:
        raise BadInput("no store was named; give its folder, or `store = ...` in the --config file")
    return str(store)
