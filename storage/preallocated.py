"""Arrow columns that are made at full size first and then filled in any order, by many writers.

A file is whole from the start: schema, a hole for the body, footer. Each writer fills rows that
are its own; finishing moves the files into place and reads them once, for their digests.
"""

import io
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from retomaton_dist.storage import files
from retomaton_dist.storage.columns import LONG
from retomaton_dist.storage.files import FileDigest

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


class PartsWriter:
    """Fills columns of a folder, in any order; when its `with` block ends well, all is durable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bodies: dict[str, int] = {}
        self._open: dict[str, int] = {}

    def __enter__(self) -> "PartsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with files.clear_errors(self._folder):
                for descriptor in self._open.values() if kind is None else ():
                    os.fsync(descriptor)
        finally:
            for descriptor in self._open.values():
                os.close(descriptor)
            self._open.clear()

    def write(self, name: str, first: int, block: NDArray[Any]) -> None:
        """Write the numbers first.. of a column."""
        path = part(self._folder, name)
        with files.clear_errors(path):
            if name not in self._open:
                self._open[name] = os.open(path, os.O_WRONLY)
            if name not in self._bodies:
                self._bodies[name] = _body_of(path)
            files.write_at(self._open[name], self._bodies[name] + first * block.itemsize, block)


def _body_of(path: Path) -> int:
    """Where the numbers begin in a column's file."""
    whole = pa.memory_map(str(path)).read_buffer()
    body = pa.ipc.open_file(pa.BufferReader(whole)).get_batch(0).column(0).buffers()[1]
    return int(body.address - whole.address)


def part(folder: Path, name: str) -> Path:
    """Where the column of this name lies among those that `preallocate` made in a folder."""
    return folder / f"{name}.arrow"


def preallocate(folder: Path, columns: Mapping[str, tuple[Any, int]]) -> None:
    """Make Arrow files of one column each, given by type and length, to be filled."""
    with files.clear_errors(folder):
        files.make_folder(folder)
        for name, (dtype, length) in columns.items():
            _make(part(folder, name), name, np.dtype(dtype), length)
        files.flush_folder(folder)


def finish(folder: Path, target: Path, names: Iterable[str]) -> dict[str, FileDigest]:
    """Move filled columns from one folder to another, unless a killed run did; return digests."""
    paths = {name: target / f"{name}.arrow" for name in names}
    with files.clear_errors(target):
        for name, path in paths.items():
            if part(folder, name).exists():
                part(folder, name).replace(path)
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
