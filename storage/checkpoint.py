"""Arrays and facts that a long computation saves to go on from: one self-checking Arrow file.

A checkpoint is scratch: it is bound to a config hash, replaced as the work goes on, and removed
when its stage is done. What units of such a computation leave to each other is kept the same way.
"""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from retomaton_dist.storage import canonical, columns
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.json_rules import is_object

_REMEDY = "delete it to begin the stage anew"

Arrays = dict[str, NDArray[Any]]


def save(path: Path, config_hash: str, arrays: Mapping[str, NDArray[Any]], facts: Json) -> None:
    """Replace the checkpoint durably."""
    buffers = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {
        "config_hash": config_hash,
        "facts": facts,
        "arrays": {name: [array.dtype.str, array.shape] for name, array in buffers.items()},
        "digests": {name: _digest(array) for name, array in buffers.items()},
    }
    cells = [_cell(array) for array in buffers.values()]
    schema = pa.schema(
        [(name, pa.large_binary()) for name in buffers], {"header": canonical.serialise(header)}
    )
    columns.write_batch(path, pa.RecordBatch.from_arrays(cells, schema=schema))


def load(path: Path, config_hash: str) -> tuple[Arrays, Json] | None:
    """Return what was saved last under the same config; None if there is nothing."""
    if not path.exists():
        return None
    arrays, header = _mapped(path)
    if any(_digest(array) != header["digests"].get(name) for name, array in arrays.items()):
        raise DamagedStore(f"{path} was altered; {_REMEDY}")
    return (arrays, header["facts"]) if header["config_hash"] == config_hash else None


def load_part(path: Path, names: Collection[str]) -> tuple[Arrays, Json]:
    """Map some arrays of what was saved, unchecked: for whoever needs a few rows of them."""
    if not path.exists():
        raise DamagedStore(f"{path} is missing; run the same command again: it is made anew")
    arrays, header = _mapped(path)
    return {name: arrays[name] for name in names}, header["facts"]


def _mapped(path: Path) -> tuple[Arrays, Json]:
    batch = columns.map_batch(path)
    try:
        header = canonical.parse(batch.schema.metadata[b"header"], path, _REMEDY)
        arrays = {
            name: np.frombuffer(batch.column(name)[0].as_buffer(), dtype).reshape(shape)
            for name, (dtype, shape) in header["arrays"].items()
        }
        if not {"config_hash", "facts"} <= header.keys() or not is_object(header["digests"]):
            raise KeyError("a part of the header")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedStore(f"{path} is no checkpoint; {_REMEDY}") from error
    return arrays, header


def _cell(array: NDArray[Any]) -> pa.Array:
    # One value of large_binary, made without a copy of the array.
    offsets = pa.py_buffer(np.array([0, array.nbytes], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(_bytes(array))])


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(_bytes(array).data).hexdigest()


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
