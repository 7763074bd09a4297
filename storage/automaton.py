"""An automaton on disk: Arrow columns in slot order, and a file that says what they are.

    automata/NAME/automaton.json      sizes, codec, and the type and length of every column
    automata/NAME/offsets.arrow       first slot of each state, and N                 [Q + 1]
    automata/NAME/values.arrow        value per slot
    automata/NAME/nexts.arrow         slot of the entry pointed to per slot; -1 at a document's end
    automata/NAME/states.arrow        state per slot
    automata/NAME/entries.arrow       entry per slot
    automata/NAME/slots.arrow         slot per entry

Besides, what its codec keeps of keys:

    automata/NAME/keys.arrow          fp16: d numbers per slot
    automata/NAME/codes.arrow         pq: M bytes per slot; cells.arrow, brackets.arrow: one number
    automata/NAME/centroids.arrow     pq: C x d numbers; codebooks.arrow: M x d / M x 256 numbers

The folder needs nothing outside itself, so it can be copied to where it is walked.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from retomaton_dist.storage.column_folder import FolderFormat
from retomaton_dist.storage.json_rules import is_name, is_positive, is_whole

# 2^32 - 1 itself is -1 as uint32.
_NARROW = (1 << 32) - 1
# States are uint32 for any number of entries: only without clusters could there be more.
MOST_STATES = 1 << 32


def id_type(entries: int) -> type[np.uint32] | type[np.int64]:
    """Type of slots and entries: uint32 as long as it holds them all and -1."""
    return np.uint32 if entries < _NARROW else np.int64


@dataclass(frozen=True)
class AutomatonShape:
    """Sizes of an automaton; `code_size` M and `cells` C are 0 for codecs that have none."""

    entries: int
    states: int
    dimension: int
    codec: str
    code_size: int
    cells: int

    def columns(self) -> dict[str, tuple[np.dtype[Any], int]]:
        """Type and length of every column but the codec's."""
        ids = np.dtype(id_type(self.entries))
        return {
            "offsets": (ids, self.states + 1),
            "values": (np.dtype(np.int32), self.entries),
            "nexts": (ids, self.entries),
            "states": (np.dtype(np.uint32), self.entries),
            "entries": (ids, self.entries),
            "slots": (ids, self.entries),
        }


AUTOMATA = FolderFormat(
    what="a compiled automaton",
    folder="automata",
    description="automaton.json",
    format="retomaton-automaton",
    version=1,
    command="compile",
    make_shape=AutomatonShape,
    rules={
        **dict.fromkeys(("entries", "states", "dimension"), is_positive),
        **dict.fromkeys(("code_size", "cells"), is_whole),
        "codec": is_name,
    },
)
