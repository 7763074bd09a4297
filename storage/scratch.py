"""Arrays on disk that many writers fill in any order and many readers map: scratch of a stage.

Plain numbers, row after row, in a file of full size from the start. Whoever writes rows says so
elsewhere, when they are durable; the stage removes the file when it is done.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage import files
from storage.errors import DamagedStore


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
        """Be there at full size: a hole, to be filled. What was written before stays."""
        with files.clear_errors(self.path):
            files.make_folder(self.path.parent)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.ftruncate(descriptor, self.bytes)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            files.flush_folder(self.path.parent)

    def write(self, runs: Iterable[tuple[int, NDArray[Any]]]) -> None:
        """Write runs of rows, each given by its first row; durable on return."""
        width = np.dtype(self.dtype).itemsize * self.shape[1]
        with files.clear_errors(self.path):
            descriptor = os.open(self.path, os.O_WRONLY)
            try:
                for first, rows in runs:
                    assert rows.dtype == self.dtype, "rows of another type"
                    _write_at(descriptor, first * width, rows)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def map(self) -> NDArray[Any]:
        """Map the array; pages are shared by all processes of a node."""
        try:
            return np.memmap(self.path, self.dtype, mode="r", shape=self.shape)
        except (OSError, ValueError) as error:
            raise DamagedStore(
                f"{self.path} is missing or too short; run the same command again: if that does "
                f"not help, delete its folder"
            ) from error


def _write_at(descriptor: int, place: int, rows: NDArray[Any]) -> None:
    data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
    while len(data):
        written = os.pwrite(descriptor, data, place)
        data, place = data[written:], place + written
