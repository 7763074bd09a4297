"""The argument that most commands share: which store."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from retomaton_dist.cli.command import Invocation
from retomaton_dist.errors import BadInput, CorpusError


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the store's folder; a TOML file may name it instead."""
    parser.add_argument("store", metavar="STORE", nargs="?", help="the store's folder")


def store_of(call: Invocation) -> str:
    """The store that was named on the command line or, failing that, in the file."""
    store = call.get("store") or call.file.get("store")
    if not store:
        raise BadInput("no store was named; give its folder, or `store = ...` in the --config file")
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
        require_shared("store", store)
    return str(store)


def readable_store(call: Invocation, flag: str = "", texts: Sequence[str] = ()) -> str:
    """The store that was named, if it can be read; the files of `texts`, given by `flag`, too.

    Looked at before seconds are spent on imports.
    """
    from retomaton_dist.corpus.sources import find_files
    from retomaton_dist.storage import manifest

    store = store_of(call)
    manifest.read(Path(store))
    try:
        find_files(texts)
    except CorpusError as error:
        raise BadInput(str(error).replace("--corpus", flag)) from error
    return store


def require_shared(what: str, path: str) -> None:
    """Refuse a path that a job, which runs elsewhere, would not find: one that is relative."""
    if not Path(path).is_absolute():
        raise BadInput(
            f"{what} {path}: a job's working directory is a copy that goes away; give an absolute "
            f"path on a file system that all nodes of the cluster share"
        )
