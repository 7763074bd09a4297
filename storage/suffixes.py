"""A suffix index on disk: entries in the order of the tokens before them.

    suffixes/NAME/suffixes.json    sizes, and the type and length of every column
    suffixes/NAME/starts.arrow     first place of each token's contexts; N at the end
    suffixes/NAME/order.arrow      entry per place
    suffixes/NAME/before.arrow     the token before each entry, by entry

`before` is negative where a document begins: -1 where nothing precedes, -2 - token for a document's
first token where that has no entry. The folder needs nothing outside itself.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from retomaton_dist.storage.automaton import id_type
from retomaton_dist.storage.column_folder import FolderFormat
from retomaton_dist.storage.json_rules import is_positive

# Of context: every look-up has memory for as many.
MOST_TOKENS = 1 << 16


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


SUFFIXES = FolderFormat(
    what="a suffix index",
    folder="suffixes",
    description="suffixes.json",
    format="retomaton-suffixes",
    version=1,
    command="suffix",
    make_shape=SuffixShape,
    rules={
        **dict.fromkeys(("entries", "vocabulary"), is_positive),
        "longest": lambda value: is_positive(value) and value <= MOST_TOKENS,
    },
)
