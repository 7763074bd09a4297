"""An n-gram model on disk: what follows the contexts of a suffix index.

    ngrams/NAME/ngrams.json      sizes, and how many n-grams of each length have which count
    ngrams/NAME/followers.arrow  the token that follows, per place of the suffix index
    ngrams/NAME/shared.arrow     symbols that a place's context shares with the place before
    ngrams/NAME/unigrams.arrow   count of each token
    ngrams/NAME/nodes.arrow      six numbers per context that many places share, see `NODE`
    ngrams/NAME/lists.arrow      follower and its count, for each follower of each such context

It is read together with the suffix index that it was made from.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from retomaton_dist.storage.automaton import id_type
from retomaton_dist.storage.column_folder import FolderFormat
from retomaton_dist.storage.json_rules import is_positive, is_whole

# What is kept of a context: `node_key` of its first place and length; where its list begins; the
# sum of its counts; how many of them are 1, 2, and more.
NODE = 6
# Low bits of a node's key: the length of its context.
DEPTH_BITS = 7
MOST_TOKENS = (1 << DEPTH_BITS) - 1
# Places: every look-up has memory for as many.
MOST_SCANNED = 1 << 16
# Counts 1 to 4 are counted: discounts come from them.
COUNTED = 4


def _is_counted(value: Any) -> bool:
    """Whether a value says of each length of n-grams how many have the counts 1 to 4."""
    return (
        isinstance(value, list)
        and 2 <= len(value) <= MOST_TOKENS
        and all(isinstance(row, list) and len(row) == COUNTED for row in value)
        and all(is_whole(count) for row in value for count in row)
    )


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


NGRAMS = FolderFormat(
    what="an n-gram model",
    folder="ngrams",
    description="ngrams.json",
    format="retomaton-ngrams",
    version=1,
    command="ngram",
    make_shape=NGramShape,
    rules={
        **dict.fromkeys(("entries", "vocabulary"), is_positive),
        "scanned": lambda value: is_positive(value) and value <= MOST_SCANNED,
        **dict.fromkeys(("nodes", "listed"), is_whole),
        "counted": _is_counted,
    },
)
