"""Arrays on disk that a stage needs and nobody keeps: mapped, so that they may exceed memory.

`ScratchArray`: many writers fill it in any order, many readers map it. Whoever writes rows says so
elsewhere, when they are durable. `mapped_zeros`: one process reads and writes it as it likes.
Whoever owns the folder removes them.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage import files
from retomaton_dist.storage.errors import DamagedStore


@dataclass(frozen=True)
class ScratchArray:
    """An array in a file of its own: [rows, width] numbers of one type."""

    path: Path
    dtype: str
    shape: tuple[int, int]

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return int(np.dtype(self.dtype).itemsize) * self.shape[0] * self.shape[1]

    def make(self) -> None:
        """Make the file at full size, a hole to be filled; what was written before stays."""
        with files.clear_errors(self.path):
            files.make_folder(self.path.parent)
            with files.opened(self.path, os.O_WRONLY | os.O_CREAT) as descriptor:
                os.ftruncate(descriptor, self.bytes)
            files.flush_folder(self.path.parent)

    def write(self, runs: Iterable[tuple[int, NDArray[Any]]]) -> None:
        """Write runs of rows, each given by its first row; durable on return."""
        width = np.dtype(self.dtype).itemsize * self.shape[1]
        with files.clear_errors(self.path), files.opened(self.path, os.O_WRONLY) as descriptor:
            for first, rows in runs:
                assert rows.dtype == self.dtype, "rows of another type"
                files.write_at(descriptor, first * width, rows)

    def map(self) -> NDArray[Any]:
        """Map the array; pages are shared by all processes of a node."""
        try:
            return np.memmap(self.path, self.dtype, mode="r", shape=self.shape)
        except (OSError, ValueError) as error:
            raise DamagedStore(
                f"{self.path} is missing or too short; run the same command again: if that does "
                f"not help, delete its folder"
            ) from error


def mapped_zeros(folder: Path, name: str, dtype: Any, length: int) -> NDArray[Any]:
    """An array of zeros in a file of its own, which replaces one that a killed run left.

    Whoever owns the folder removes it. Disk space is taken for all of it, or it is refused: a page
    that finds the disk full later would kill the process.
    """
    path, kind = folder / f"{name}.scratch", np.dtype(dtype)
    if not length:
        return np.zeros(0, kind)
    with files.clear_errors(path):
        files.make_folder(folder)
        path.unlink(missing_ok=True)
        try:
            with files.opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as descriptor:
                os.posix_fallocate(descriptor, 0, length * kind.itemsize)
        except OSError:
            path.unlink(missing_ok=True)
            raise
    # A plain array, which kernels take for what it is.
    return np.memmap(path, kind, mode="r+", shape=(length,)).view(np.ndarray)
