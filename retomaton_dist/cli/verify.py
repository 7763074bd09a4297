"""`retomaton verify`: find damage, and have it done anew."""

import argparse

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.errors import DamagedStore
from retomaton_dist.settings.stages import command_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store and the switch that repairs."""
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="forget the units that are damaged, so that the next run of their stage does just "
        "those anew",
    )
    parser.add_argument(
        "--progress", choices=("bar", "lines", "json", "none"), help="as in the other commands"
    )


def run(call: Invocation) -> int:
    """Check everything; exit code 1 if anything is damaged."""
    from retomaton_dist.runtime.progress import showing
    from retomaton_dist.storage.store import Store
    from retomaton_dist.storage.verify import repair, total_bytes, verify

    path = call["store"]
    try:
        store = Store.open(path)
    except DamagedStore as error:
        print(f"damaged: {error}")
        return 1
    with showing(call.get("progress"), "verify", total_bytes(store), "bytes") as progress:
        checked = verify(store, progress.advance)
    for finding in checked.findings:
        print(f"damaged: {store.path / finding.path}: {finding.problem}")
    if not checked.findings:
        # Only now: files that a damaged record would name look as if they belonged to nobody.
        for name in checked.leftovers:
            print(f"not part of the store: {store.path / name}")
        print(f"sound: {checked.files:,} files, {checked.bytes:,} bytes")
        return 0
    stages = sorted({command_for(finding.stage) for finding in checked.findings})
    again = " and ".join(f"`retomaton {stage} ...`" for stage in stages)
    if call.get("repair"):
        repair(path, checked)
        print(f"the damaged parts are forgotten; run {again} with the old settings again")
    else:
        print(f"to do only these anew: `retomaton verify {path} --repair`, then {again} again")
    return 1


COMMAND = Command(
    name="verify",
    summary="Check every digest, shape, range and pointer of a store; exit 1 if any is wrong.",
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton verify law.store
        retomaton verify law.store --repair     then run the named stage again
    """,
)
