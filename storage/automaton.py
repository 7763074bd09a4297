"""An automaton on disk: Arrow columns in slot order, and a file that says what they are.

    automata/NAME/automaton.json      sizes, codec, and the type and length of every column
    automata/NAME/offsets.arrow       first slot of each state, and N                 [Q + 1]
    automata/NAME/values.arrow        value per slot
    automata/NAME/nexts.arrow         slot of the entry pointed to per slot; -1 at a document's end
    automata/NAME/states.arrow        state per slot
    automata/NAME/entries.arrow       entry per slot
    automata/NAME/slots.arrow         slot per entry
    automata/NAME/keys.arrow          fp16: d numbers per slot
    automata/NAME/codes.arrow         pq: M bytes per slot; cells.arrow, brackets.arrow: one number
    automata/NAME/centroids.arrow     pq: C x d numbers; codebooks.arrow: M x d / M x 256 numbers

The folder needs nothing outside itself, so it can be copied to where it is walked.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.described import Kind
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.shaped import Rule, is_positive, is_whole

FOLDER = "automata"
DESCRIPTION = "automaton.json"
_KIND = Kind("a compiled automaton", DESCRIPTION, "retomaton-automaton", 1, "compile")
_SHAPE: dict[str, Rule] = {
    **dict.fromkeys(("entries", "states", "dimension"), is_positive),
    **dict.fromkeys(("code_size", "cells"), is_whole),
    "codec": lambda value: value in ("fp16", "pq"),
}
# 2^32 - 1 itself is -1 as uint32.
_NARROW = (1 << 32) - 1
# States are uint32 for any number of entries: only without clusters could there be more.
MOST_STATES = 1 << 32


def id_type(entries: int) -> type[np.uint32] | type[np.int64]:
    """Type of slots and entries: uint32 as long as it holds them all and -1."""
    return np.uint32 if entries < _NARROW else np.int64


def folder_of(store: Path, name: str) -> Path:
    """Where an automaton lies."""
    return store / FOLDER / name


@dataclass(frozen=True)
class AutomatonShape:
    """Sizes of an automaton; `code_size` M and `cells` C are 0 for the codec fp16."""

    entries: int
    states: int
    dimension: int
    codec: str
    code_size: int
    cells: int

    def columns(self) -> dict[str, tuple[np.dtype[Any], int]]:
        """Type and length of every column."""
        ids = np.dtype(id_type(self.entries))
        structure = {
            "offsets": (ids, self.states + 1),
            "values": (np.dtype(np.int32), self.entries),
            "nexts": (ids, self.entries),
            "states": (np.dtype(np.uint32), self.entries),
            "entries": (ids, self.entries),
            "slots": (ids, self.entries),
        }
        return structure | self._codec_columns()

    def _codec_columns(self) -> dict[str, tuple[np.dtype[Any], int]]:
        if self.codec == "fp16":
            return {"keys": (np.dtype(np.float16), self.entries * self.dimension)}
        return {
            "codes": (np.dtype(np.uint8), self.entries * self.code_size),
            "cells": (np.dtype(np.uint16), self.entries),
            "brackets": (np.dtype(np.float32), self.entries),
            "centroids": (np.dtype(np.float32), self.cells * self.dimension),
            "codebooks": (np.dtype(np.float32), 256 * self.dimension),
        }


def write_description(
    folder: Path, shape: AutomatonShape, listed: Mapping[str, FileDigest]
) -> FileDigest:
    """Write what `AutomatonFiles.open` checks the columns against."""
    return _KIND.write(folder, asdict(shape), listed)


@dataclass(frozen=True)
class AutomatonFiles:
    """Read access to an automaton's folder: memory-mapped, nothing loaded."""

    folder: Path
    shape: AutomatonShape

    @classmethod
    def open(cls, folder: Path) -> "AutomatonFiles":
        """Open a folder; a missing, foreign, newer or truncated one is refused."""
        shape = AutomatonShape(**_KIND.read(folder, _SHAPE))
        if shape.codec == "pq" and (not shape.code_size or shape.dimension % shape.code_size):
            raise DamagedStore(
                f"{folder / DESCRIPTION}: no code has {shape.code_size} bytes; {_KIND.remedy}"
            )
        return cls(folder, shape)

    @property
    def codec(self) -> str:
        """`pq` or `fp16`."""
        return self.shape.codec

    @property
    def dimension(self) -> int:
        """Width d of the keys."""
        return self.shape.dimension

    @property
    def code_size(self) -> int:
        """M, the bytes of a code."""
        return self.shape.code_size

    def column(self, name: str) -> NDArray[Any]:
        """One column, mapped."""
        return _KIND.column(self.folder, name, *self.shape.columns()[name])
