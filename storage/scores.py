"""Per-token results: Parquet files, one per unit, whose columns are numbers or rows of numbers."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from retomaton_dist.storage import files
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.json_rules import JsonObject, Rule, check_values, is_number, is_text

_FACTS = b"retomaton"
_SHAPE: dict[str, Rule] = {
    "temperatures": lambda value: isinstance(value, list) and all(map(is_number, value)),
    "walks": lambda value: isinstance(value, list) and all(map(is_text, value)),
}


class ScoreWriter:
    """Writes a file part by part, so that no more than one part is in memory.

    The file appears, durably, when the block ends well. `facts` are kept in its schema.
    """

    def __init__(self, path: Path, facts: Json) -> None:
        self._facts = {_FACTS: json.dumps(facts, sort_keys=True).encode()}
        self._path, self._opened = path, contextlib.ExitStack()
        self._writer: parquet.ParquetWriter | None = None

    def __enter__(self) -> Self:
        self._file = self._opened.enter_context(files.replacing(self._path))
        return self

    def write(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add equally many rows of every column."""
        table = pa.table({name: _wrap(column) for name, column in columns.items()})
        table = table.replace_schema_metadata(self._facts)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, table.schema, compression="zstd")
            # Before the file is closed, whatever happens: Parquet writes to it until then.
            self._opened.callback(self._writer.close)
        self._writer.write_table(table)

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    @property
    def result(self) -> FileDigest:
        """Digest and size of what was written."""
        return self._file.result


def read_facts(path: Path) -> Json:
    """What the writer was told about the file."""
    with _opened(path):
        facts = json.loads((parquet.read_schema(path).metadata or {})[_FACTS])
        if not isinstance(facts, dict):
            raise ValueError("its facts are none")
    check_values(str(path), facts, _SHAPE)
    return JsonObject(facts)


def column_names(path: Path) -> list[str]:
    """Names of a file's columns."""
    with _opened(path):
        return list(parquet.read_schema(path).names)


def read_columns(paths: Sequence[Path], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Columns of several files, one file after the other; no other column is read."""
    parts = []
    for path in paths:
        with _opened(path):
            table = parquet.read_table(path, columns=list(names), partitioning=None)
            parts.append({name: _unwrap(table.column(name)) for name in names})
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Turn what Parquet says about a broken file, in the block, into one line."""
    try:
        files.check_plain(path)
        yield
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        first, *_ = [*str(error).splitlines(), ""]
        raise DamagedStore(
            f"{path} is missing or no whole file of scores: {first}; delete its folder and "
            f"evaluate again"
        ) from error


def _wrap(column: NDArray[Any]) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(column).reshape(-1))
    if column.ndim == 1:
        return flat
    width = int(np.prod(column.shape[1:]))
    return pa.FixedSizeListArray.from_arrays(flat, width)


def _unwrap(column: pa.ChunkedArray) -> NDArray[Any]:
    if not pa.types.is_fixed_size_list(column.type):
        plain: NDArray[Any] = column.to_numpy()
        return plain
    width = column.type.list_size
    parts: Iterable[NDArray[Any]] = (
        chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width) for chunk in column.chunks
    )
    return np.concatenate([np.empty((0, width), column.type.value_type.to_pandas_dtype()), *parts])
