"""Arrow columns that are made at full size first and then filled in any order, by many writers.

A file is whole from the start: schema, a hole for the body, footer. Each writer fills rows that
are its own; finishing moves the files into place and reads them once, for their digests.
"""

import io
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from retomaton_dist.storage import files
from retomaton_dist.storage.columns import LONG
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.pickling import PicklesFieldsOnly

DIGEST_THREADS = 4
# Bytes of a buffer's own that a column under construction has in memory.
ALIGNED = 64


class _Skeleton(io.RawIOBase):
    """A file that leaves a hole where the buffer at one certain address is written."""

    def __init__(self, descriptor: int, body: int) -> None:
        super().__init__()
        self._descriptor, self._body = descriptor, body

    def writable(self) -> bool:
        """Say yes, as files open for writing do."""
        return True

    def write(self, data: Any) -> int:
        """Write, or skip what is the body."""
        view = np.frombuffer(data, np.uint8)
        if len(view) and view.ctypes.data == self._body:
            os.lseek(self._descriptor, len(view), os.SEEK_CUR)
        else:
            rest = view.data
            while len(rest):
                rest = rest[os.write(self._descriptor, rest) :]
        return len(view)


@dataclass(frozen=True)
class Part(PicklesFieldsOnly):
    """One column under construction, in a file of its own that is named like the column."""

    path: Path

    def fill(self, first: int, blocks: Iterable[NDArray[Any]]) -> None:
        """Write the numbers first.. of the column, block after block; durable on return.

        A block is written before the next one is asked for, so they may share their memory.
        """
        with files.clear_errors(self.path):
            descriptor = os.open(self.path, os.O_WRONLY)
            try:
                for block in blocks:
                    files.write_at(descriptor, self._body + first * block.itemsize, block)
                    first += block.size
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @cached_property
    def _body(self) -> int:
        """Where the numbers begin in the file."""
        whole = pa.memory_map(str(self.path)).read_buffer()
        body = pa.ipc.open_file(pa.BufferReader(whole)).get_batch(0).column(0).buffers()[1]
        return int(body.address - whole.address)


def part(folder: Path, name: str) -> Part:
    """The column of this name among those that `preallocate` made in a folder."""
    return Part(folder / f"{name}.arrow")


def preallocate(folder: Path, columns: Mapping[str, tuple[Any, int]]) -> None:
    """Make Arrow files of one column each, given by type and length, to be filled."""
    with files.clear_errors(folder):
        files.make_folder(folder)
        for name, (dtype, length) in columns.items():
            _make(part(folder, name).path, name, np.dtype(dtype), length)
        files.flush_folder(folder)


def finish(folder: Path, target: Path, names: Iterable[str]) -> dict[str, FileDigest]:
    """Move filled columns from one folder to another, unless a killed run did; return digests."""
    paths = {name: target / f"{name}.arrow" for name in names}
    with files.clear_errors(target):
        for name, path in paths.items():
            if part(folder, name).path.exists():
                part(folder, name).path.replace(path)
        if folder.exists():
            files.flush_folder(folder)
        files.flush_folder(target)
        with ThreadPoolExecutor(DIGEST_THREADS) as pool:
            return dict(zip(paths, pool.map(files.digest_of, paths.values()), strict=True))


def _make(path: Path, name: str, kind: np.dtype[Any], length: int) -> None:
    # A buffer that claims the column's size and has none: only its address and size count, and
    # nothing is read of it. Memory for all of a column need not exist.
    place = np.empty(ALIGNED, np.uint8)
    body = pa.foreign_buffer(place.ctypes.data, length * kind.itemsize, place)
    column = pa.Array.from_buffers(pa.from_numpy_dtype(kind), length, [None, body])
    batch = pa.RecordBatch.from_arrays([column], names=[name])
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        skeleton = _Skeleton(descriptor, body.address)
        with pa.ipc.new_file(skeleton, batch.schema, options=LONG) as writer:
            writer.write_batch(batch)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
