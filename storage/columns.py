"""Arrow columns: files with exactly one record batch, so that each column is one buffer to map."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from retomaton_dist.storage import files
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import FileDigest

# Columns of 2^31 numbers and more, which Arrow writes only if asked to.
LONG = pa.ipc.IpcWriteOptions(allow_64bit=True)


def write_batch(path: Path, batch: pa.RecordBatch) -> FileDigest:
    """Write one record batch as an Arrow file, durably."""
    with files.replacing(path) as file, pa.ipc.new_file(file, batch.schema, options=LONG) as writer:
        writer.write_batch(batch)
    return file.result


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> FileDigest:
    """Write equally long arrays as the columns of one Arrow file; maps are not loaded whole."""
    arrays = [_wrap(column) for column in columns.values()]
    return write_batch(path, pa.RecordBatch.from_arrays(arrays, names=list(columns)))


def write_blocks(path: Path, name: str, dtype: Any, blocks: Iterable[NDArray[Any]]) -> FileDigest:
    """Write an Arrow file of one column whose numbers come block by block."""
    builder = ColumnBuilder(path, {name: dtype})
    try:
        for block in blocks:
            builder.append({name: block})
        return builder.finish()
    finally:
        builder.discard()


def map_batch(path: Path) -> pa.RecordBatch:
    """Map an Arrow file of one batch; what cannot be such a file is damage."""
    try:
        files.check_plain(path)
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = reader.num_record_batches
        batch = reader.get_batch(0) if batches == 1 else None
        if batch is not None:
            batch.validate()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedStore(f"{path} is missing or no whole Arrow file: {error}") from error
    if batch is None:
        raise DamagedStore(f"{path} holds {batches} record batches instead of one")
    return batch


def map_columns(path: Path, dtypes: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Map the columns of an Arrow file as arrays, copying nothing; other types are damage."""
    batch = map_batch(path)
    present = [name for name in dtypes if batch.schema.get_field_index(name) >= 0]
    found = {name: _unwrap(path, batch, name) for name in present}
    wrong = [name for name in dtypes if name not in found or found[name].dtype != dtypes[name]]
    if wrong:
        raise DamagedStore(f"{path} lacks column {wrong[0]} of type {np.dtype(dtypes[wrong[0]])}")
    return found


class ColumnBuilder:
    """Columns whose parts come one after the other and which are never in memory whole.

    Parts go to raw scratch files beside the target; `finish` wraps them as one Arrow file.
    """

    def __init__(self, path: Path, dtypes: Mapping[str, Any]) -> None:
        self.path = path
        self.length = 0
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        files.check_fence()
        with files.clear_errors(path):
            files.make_folder(path.parent)
            self._files = {name: self._scratch(name).open("wb") for name in dtypes}

    def append(self, part: Mapping[str, NDArray[Any]]) -> None:
        """Add equally long arrays, one per column."""
        lengths = {len(column) for column in part.values()}
        assert len(lengths) == 1
        assert part.keys() == self._files.keys()
        with files.clear_errors(self.path):
            for name, column in part.items():
                self._files[name].write(np.ascontiguousarray(column, self._dtypes[name]).data)
        self.length += lengths.pop()

    def finish(self) -> FileDigest:
        """Write the Arrow file and remove the scratch files."""
        self._close()
        columns = {name: self._map(name, dtype) for name, dtype in self._dtypes.items()}
        result = write_columns(self.path, columns)
        self.discard()
        return result

    def discard(self) -> None:
        """Remove the scratch files."""
        for name, file in self._files.items():
            # A full disk refuses the last buffered bytes once more; they are not wanted now.
            with contextlib.suppress(OSError):
                file.close()
            self._scratch(name).unlink(missing_ok=True)

    def _map(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        if not self.length:
            return np.empty(0, dtype)
        return np.memmap(self._scratch(name), dtype, mode="r", shape=(self.length,))

    def _close(self) -> None:
        with files.clear_errors(self.path):
            for file in self._files.values():
                file.close()

    def _scratch(self, name: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{name}{files.TEMPORARY}")


def concatenate(path: Path, parts: Iterable[Path], dtypes: Mapping[str, Any]) -> FileDigest:
    """Merge Arrow files of the same columns into one, a part at a time."""
    builder = ColumnBuilder(path, dtypes)
    try:
        for part in parts:
            builder.append(map_columns(part, dtypes))
        return builder.finish()
    finally:
        builder.discard()


def _wrap(column: NDArray[Any]) -> pa.Array:
    # np.memmap is an ndarray whose buffer Arrow can take as it is: no copy.
    buffer = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), len(column), [None, buffer])


def _unwrap(path: Path, batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    column = batch.column(name)
    if column.null_count or not (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    ):
        raise DamagedStore(f"{path}: column {name} has nulls or is not numeric")
    array: NDArray[Any] = column.to_numpy(zero_copy_only=True)
    return array
