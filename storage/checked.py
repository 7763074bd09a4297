"""Comparing a finished stage with its digests before results are made from it.

Whatever reads an automaton, an index, a clustering, a corpus or scores for results calls this
first: flipped bits would make numbers that look like any others.
"""

from pathlib import Path

from retomaton_dist.storage import verified_files
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.store import Store, digest_of_files


def check_stage(store: Store, name: str) -> None:
    """Refuse a finished stage of which any file is not as it was written.

    Files are read whole, several at once, unless this process or another one on this machine has
    found them sound and they have not changed since.
    """
    stage, listed = store.stage(name), store.files_of(name)
    if digest_of_files(listed) != stage.digest:
        raise DamagedStore(
            f"{store.path}: the records of stage {name} do not add up to its digest; "
            f"{advice(store.path, name)}"
        )
    paths = {store.path / path: expected for path, expected in listed.items()}
    problems = verified_files.problems_of(f"{store.path.resolve()} {name}", paths)
    for path, problem in problems.items():
        raise DamagedStore(
            f"{path}: {problem}; {advice(store.path, name)} ({len(problems)} of {len(listed)} "
            f"files of the stage {name})"
        )


def advice(store: Path, name: str) -> str:
    """What to do about a damaged stage."""
    return f"`retomaton verify {store} --repair`, then run its stage {name} again"
