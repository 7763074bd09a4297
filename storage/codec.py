"""A distance codec on disk: codes of all entries, in entry order. It belongs to the store.

    codecs/NAME/COLUMN.arrow   some numbers per entry, or as many as the codec has for all

Which columns there are, the codec says. `pq` has cells (one per entry), codes (M bytes per entry),
brackets (|r|^2 + 2<c, r> per entry), centroids (C x d numbers: the cells') and codebooks
(M x d / M x 256 numbers: the codewords). `fp16` has no files: it is the keys themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage import columns
from retomaton_dist.storage.column_folder import map_column
from retomaton_dist.storage.files import FileDigest

FOLDER = "codecs"


@dataclass(frozen=True)
class CodecFiles:
    """A codec's folder: `rows` are columns with so many numbers per entry, `books` all others."""

    folder: Path
    entries: int
    rows: Mapping[str, tuple[Any, int]]
    books: Mapping[str, tuple[Any, int]]

    def columns(self) -> dict[str, tuple[Any, int]]:
        """Type and length of the columns that grow with the entries."""
        return {name: (kind, self.entries * width) for name, (kind, width) in self.rows.items()}

    def write_books(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, FileDigest]:
        """Write what training yielded; return the files by their columns."""
        return {
            name: columns.write_columns(
                self.folder / f"{name}.arrow", {name: np.ascontiguousarray(array).reshape(-1)}
            )
            for name, array in arrays.items()
        }

    def book(self, name: str) -> NDArray[Any]:
        """A column that does not grow with the entries, flat and mapped."""
        return map_column(self.folder / f"{name}.arrow", name, *self.books[name])

    def row(self, name: str) -> NDArray[Any]:
        """A column in entry order, [N] or [N, width], mapped."""
        kind, width = self.rows[name]
        flat = map_column(self.folder / f"{name}.arrow", name, kind, self.entries * width)
        return flat.reshape(-1, width) if width > 1 else flat
