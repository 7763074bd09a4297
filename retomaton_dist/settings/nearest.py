"""Misspelt names: the known one that was probably meant."""

import difflib
from collections.abc import Iterable

# Longer names are no slips of the pen, and comparing them would take minutes.
LONGEST = 100


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that is most like this one, if any is like it at all."""
    found = difflib.get_close_matches(name[:LONGEST], list(known), n=1, cutoff=likeness)
    return found[0] if found else None
