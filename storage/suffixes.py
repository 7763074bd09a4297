"""A suffix index on disk: entries in the order of the tokens before them.

    suffixes/NAME/suffixes.json    sizes, and the type and length of every column
    suffixes/NAME/starts.arrow     first place of each token's contexts; N at the end
    suffixes/NAME/order.arrow      entry per place
    suffixes/NAME/before.arrow     the token before each entry, by entry

`before` is negative where a document begins: -1 where nothing precedes, -2 - token for a document's
first token where that has no entry. The folder needs nothing outside itself.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.automaton import id_type
from retomaton_dist.storage.described import Kind
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.shaped import Rule, is_positive

FOLDER = "suffixes"
DESCRIPTION = "suffixes.json"
_KIND = Kind("a suffix index", DESCRIPTION, "retomaton-suffixes", 1, "suffix")

_SHAPE: dict[str, Rule] = dict.fromkeys(("entries", "vocabulary"), is_positive) | {
    "longest": lambda value: is_positive(value) and value <= MOST_TOKENS
}
# Of context: room is made for as many per look-up.
MOST_TOKENS = 1 << 16


def folder_of(store: Path, name: str) -> Path:
    """Where a suffix index lies."""
    return store / FOLDER / name


@dataclass(frozen=True)
class SuffixShape:
    """Sizes of a suffix index; `longest` is how many tokens of context it tells apart."""

    entries: int
    vocabulary: int
    longest: int

    def columns(self) -> dict[str, tuple[np.dtype[Any], int]]:
        """Type and length of every column."""
        ids = np.dtype(id_type(self.entries))
        return {
            "starts": (ids, self.vocabulary + 1),
            "order": (ids, self.entries),
            "before": (np.dtype(np.int32), self.entries),
        }


def write_description(
    folder: Path, shape: SuffixShape, listed: Mapping[str, FileDigest]
) -> FileDigest:
    """Write what `SuffixFiles.open` checks the columns against."""
    return _KIND.write(folder, asdict(shape), listed)


@dataclass(frozen=True)
class SuffixFiles:
    """Read access to a suffix index's folder: memory-mapped, nothing loaded."""

    folder: Path
    shape: SuffixShape

    @classmethod
    def open(cls, folder: Path) -> "SuffixFiles":
        """Open a folder; a missing, foreign, newer or truncated one is refused."""
        return cls(folder, SuffixShape(**_KIND.read(folder, _SHAPE)))

    def column(self, name: str) -> NDArray[Any]:
        """One column, mapped."""
        return _KIND.column(self.folder, name, *self.shape.columns()[name])
