"""An n-gram model on disk: what follows the contexts of a suffix index.

    ngrams/NAME/ngrams.json      sizes, and how many n-grams of each length have which count
    ngrams/NAME/followers.arrow  the token that follows, per place of the suffix index
    ngrams/NAME/shared.arrow     symbols that a place's context shares with the place before
    ngrams/NAME/unigrams.arrow   count of each token
    ngrams/NAME/nodes.arrow      six numbers per context that many places share, see `NODE`
    ngrams/NAME/lists.arrow      follower and its count, for each follower of each such context

It is read together with the suffix index that it was made from.
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
from retomaton_dist.storage.shaped import Rule, is_positive, is_whole

FOLDER = "ngrams"
DESCRIPTION = "ngrams.json"
_KIND = Kind("an n-gram model", DESCRIPTION, "retomaton-ngrams", 1, "ngram")

# What is kept of a context: `node_key` of its first place and length; where its list begins; the
# sum of its counts; how many of them are 1, 2, and more.
NODE = 6
# Low bits of a node's key: the length of its context.
DEPTH_BITS = 7
MOST_TOKENS = (1 << DEPTH_BITS) - 1
# Places: room is made for as many per look-up.
MOST_SCANNED = 1 << 16
# Counts 1 to 4 are counted: discounts come from them.
COUNTED = 4


def _is_counted(value: Any) -> bool:
    """Whether a value says of several lengths how many n-grams have the counts 1 to 4."""
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == COUNTED and all(map(is_whole, row)) for row in value
    )


_SHAPE: dict[str, Rule] = {
    **dict.fromkeys(("entries", "vocabulary"), is_positive),
    "scanned": lambda value: is_positive(value) and value <= MOST_SCANNED,
    **dict.fromkeys(("nodes", "listed"), is_whole),
    "counted": lambda value: _is_counted(value) and 2 <= len(value) <= MOST_TOKENS,
}


def folder_of(store: Path, name: str) -> Path:
    """Where an n-gram model lies."""
    return store / FOLDER / name


@dataclass(frozen=True)
class NGramShape:
    """Sizes of an n-gram model.

    Contexts of more than `scanned` places are `nodes`, which have `listed` followers in all.
    `counted` [order, 4] says how many n-grams of each length have the counts 1 to 4.
    """

    entries: int
    vocabulary: int
    scanned: int
    nodes: int
    listed: int
    counted: list[list[int]]

    @property
    def order(self) -> int:
        """The longest n-grams' length."""
        return len(self.counted)

    def columns(self) -> dict[str, tuple[np.dtype[Any], int]]:
        """Type and length of every column."""
        return {
            **place_columns(self.entries),
            "unigrams": (np.dtype(np.int64), self.vocabulary),
            "nodes": (np.dtype(np.int64), NODE * self.nodes),
            "lists": (np.dtype(id_type(self.entries)), 2 * self.listed),
        }


def place_columns(entries: int) -> dict[str, tuple[np.dtype[Any], int]]:
    """Type and length of the columns that have a number per place."""
    return {
        "followers": (np.dtype(np.int32), entries),
        "shared": (np.dtype(np.uint8), entries),
    }


def write_description(
    folder: Path, shape: NGramShape, listed: Mapping[str, FileDigest]
) -> FileDigest:
    """Write what `NGramFiles.open` checks the columns against."""
    return _KIND.write(folder, asdict(shape), listed)


@dataclass(frozen=True)
class NGramFiles:
    """Read access to an n-gram model's folder: memory-mapped, nothing loaded."""

    folder: Path
    shape: NGramShape

    @classmethod
    def open(cls, folder: Path) -> "NGramFiles":
        """Open a folder; a missing, foreign, newer or truncated one is refused."""
        return cls(folder, NGramShape(**_KIND.read(folder, _SHAPE)))

    def column(self, name: str) -> NDArray[Any]:
        """One column, mapped."""
        return _KIND.column(self.folder, name, *self.shape.columns()[name])
