"""`retomaton doctor`: what this machine or every node of a cluster has, and whether it works."""

import argparse
import os

from retomaton_dist.cli.command import Command, Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store and the cluster, both of which may be left out."""
    parser.add_argument(
        "store", metavar="STORE", nargs="?", help="a store, or where one is to be: is it shared?"
    )
    parser.add_argument(
        "--address",
        metavar="TEXT",
        help="Ray cluster to look at: HOST:PORT, or auto for the one on this machine (default: "
        "RAY_ADDRESS, else this machine alone)",
    )


def run(call: Invocation) -> int:
    """Look, compute, and tell; exit code 1 if there is a problem."""
    from retomaton_dist.api.doctor import doctor
    from retomaton_dist.checkup.page import as_text

    address = call.get("address") or os.environ.get("RAY_ADDRESS") or ""
    checkups, findings = doctor(call.get("store"), address=address)
    print(as_text(checkups, findings))
    return int(any(finding.is_problem for finding in findings))


COMMAND = Command(
    name="doctor",
    summary="Check this machine, or every node of a cluster: versions, memory, locks, and a "
    "self-test of each path on the CPU and every GPU; exit 1 if there is a problem.",
    arguments=add_arguments,
    run=run,
    examples="""
        this machine, and whether a store's folder can be locked:
          retomaton doctor
          retomaton doctor law.store

        every node of a cluster: the same versions, the same folder, working GPUs?
          retomaton doctor /shared/law.store --address auto
    """,
)
