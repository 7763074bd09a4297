"""Arrow columns that are made at full size first and then filled in any order, by many writers.

The file is whole from the start: schema, a hole for the body, footer. Each writer fills rows that
are its own; finishing reads the file once, for its digest, and moves it into place.
"""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage import files
from storage.files import FileDigest


class _Skeleton(io.RawIOBase):
    """A file that leaves a hole where one certain buffer is written."""

    def __init__(self, descriptor: int, body: NDArray[np.uint8]) -> None:
        super().__init__()
        self._descriptor, self._body = descriptor, body

    def writable(self) -> bool:
        """Say yes, as files open for writing do."""
        return True

    def write(self, data: Any) -> int:
        """Write, or skip what is the body."""
        view = np.frombuffer(data, np.uint8)
        if len(view) and view.ctypes.data == self._body.ctypes.data:
            os.lseek(self._descriptor, len(view), os.SEEK_CUR)
        else:
            rest = view.data
            while len(rest):
                rest = rest[os.write(self._descriptor, rest) :]
        return len(view)


def preallocate(path: Path, name: str, dtype: Any, length: int) -> None:
    """Make an Arrow file of one column of `length` numbers, to be filled; replaces any other."""
    kind = np.dtype(dtype)
    # Never touched, so never in memory: only its address and size count.
    body = np.empty(length * kind.itemsize, np.uint8)
    column = pa.Array.from_buffers(pa.from_numpy_dtype(kind), length, [None, pa.py_buffer(body)])
    batch = pa.RecordBatch.from_arrays([column], names=[name])
    with files.clear_errors(path):
        files.make_folder(path.parent)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with pa.ipc.new_file(_Skeleton(descriptor, body), batch.schema) as writer:
                writer.write_batch(batch)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        files.flush_folder(path.parent)


def fill(path: Path, first: int, rows: NDArray[Any]) -> None:
    """Write numbers first.. of a preallocated column, durably."""
    data = np.ascontiguousarray(rows).data.cast("B")
    with files.clear_errors(path):
        place = _body_offset(path) + first * rows.dtype.itemsize
        descriptor = os.open(path, os.O_WRONLY)
        try:
            while len(data):
                written = os.pwrite(descriptor, data, place)
                data, place = data[written:], place + written
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def finish(path: Path, target: Path) -> FileDigest:
    """Move a filled column to its place, unless a killed run did; return its digest."""
    with files.clear_errors(target):
        if path.exists():
            path.replace(target)
            files.flush_folder(path.parent)
            files.flush_folder(target.parent)
        return files.digest_of(target)


def _body_offset(path: Path) -> int:
    whole = pa.memory_map(str(path)).read_buffer()
    body = pa.ipc.open_file(pa.BufferReader(whole)).get_batch(0).column(0).buffers()[1]
    return int(body.address - whole.address)
