"""`rd.doctor`: what machines have, and whether it works."""

from pathlib import Path

from retomaton_dist.checkup.findings import CheckupFinding, find
from retomaton_dist.checkup.nodes import NodeCheckup, examine


def doctor(
    store: str | Path | None = None, *, address: str = ""
) -> tuple[list[NodeCheckup], list[CheckupFinding]]:
    """Check this machine or, with an address, every node of a cluster; see `retomaton doctor`.

    With a store (or where one is to be), also whether every node sees, locks and writes its place.
    """
    checkups = examine(address, Path(store) if store else None)
    return checkups, find(checkups)
