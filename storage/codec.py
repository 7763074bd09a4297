"""A distance codec on disk: codes of all entries, in entry order. It belongs to the store.

    codecs/NAME/centroids.arrow   C x d numbers: the cells' centroids
    codecs/NAME/codebooks.arrow   M x d / M x 256 numbers: the codewords
    codecs/NAME/cells.arrow       cell per entry
    codecs/NAME/codes.arrow       M bytes per entry
    codecs/NAME/brackets.arrow    |r|^2 + 2<c, r> per entry

The codec `fp16` has no files: it is the keys themselves.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage import columns
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import FileDigest

FOLDER = "codecs"
BOOKS = ("centroids", "codebooks")
CODES = {"cells": np.uint16, "codes": np.uint8, "brackets": np.float32}


def folder_of(store: Path, name: str) -> Path:
    """Where a codec lies."""
    return store / FOLDER / name


def write_books(
    store: Path, name: str, centroids: NDArray[np.float32], codebooks: NDArray[np.float32]
) -> dict[str, FileDigest]:
    """Write what training yielded; return the files, relative to the store."""
    written = {}
    for column, values in zip(BOOKS, (centroids, codebooks), strict=True):
        path = folder_of(store, name) / f"{column}.arrow"
        digest = columns.write_columns(path, {column: np.ascontiguousarray(values).reshape(-1)})
        written[path.relative_to(store).as_posix()] = digest
    return written


@dataclass(frozen=True)
class CodecFiles:
    """Read access to a codec, memory-mapped: N entries, keys of `dimension`, M, C."""

    folder: Path
    entries: int
    dimension: int
    code_size: int
    cells: int

    @property
    def parts(self) -> Path:
        """Where codes lie while they are filled."""
        return self.folder / "parts"

    def columns(self) -> dict[str, tuple[Any, int]]:
        """Type and length of the columns that grow with N."""
        return {name: (kind, self.entries * self.width(name)) for name, kind in CODES.items()}

    def width(self, name: str) -> int:
        """Numbers per entry in a column that grows with N."""
        return self.code_size if name == "codes" else 1

    @cached_property
    def centroids(self) -> NDArray[np.float32]:
        """The cells' centroids [C, d]."""
        flat = self.column("centroids", np.float32, self.cells * self.dimension)
        return flat.reshape(self.cells, self.dimension)

    @cached_property
    def codebooks(self) -> NDArray[np.float32]:
        """The codewords [M, d / M, 256]."""
        flat = self.column("codebooks", np.float32, 256 * self.dimension)
        return flat.reshape(self.code_size, -1, 256)

    def rows(self, name: str) -> NDArray[Any]:
        """`cells`, `codes` [N, M] or `brackets`, in entry order."""
        flat = self.column(name, CODES[name], self.entries * self.width(name))
        return flat.reshape(-1, self.width(name)) if name == "codes" else flat

    def column(self, name: str, dtype: Any, length: int) -> NDArray[Any]:
        """One column, mapped."""
        path = self.folder / f"{name}.arrow"
        found = columns.map_columns(path, {name: dtype})[name]
        if len(found) != length:
            raise DamagedStore(f"{path} has {len(found):,} numbers instead of {length:,}")
        return found
