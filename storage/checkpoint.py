"""Arrays and facts that a long computation saves to go on from: one self-checking Arrow file.

A checkpoint is scratch: it is bound to a config hash, replaced as the work goes on, and removed
when its stage is done.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage import canonical, columns
from storage.canonical import Json
from storage.errors import DamagedStore

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
    cells = [pa.array([array.tobytes()], pa.large_binary()) for array in buffers.values()]
    schema = pa.schema(
        [(name, pa.large_binary()) for name in buffers], {"header": canonical.serialise(header)}
    )
    columns.write_batch(path, pa.RecordBatch.from_arrays(cells, schema=schema))


def load(path: Path, config_hash: str) -> tuple[Arrays, Json] | None:
    """Return what was saved last under the same config; None if there is nothing."""
    if not path.exists():
        return None
    batch = columns.map_batch(path)
    try:
        header = canonical.parse(batch.schema.metadata[b"header"], path, _REMEDY)
        arrays = {
            name: np.frombuffer(batch.column(name)[0].as_buffer(), dtype).reshape(shape)
            for name, (dtype, shape) in header["arrays"].items()
        }
        sound = all(_digest(array) == header["digests"][name] for name, array in arrays.items())
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedStore(f"{path} is no checkpoint; {_REMEDY}") from error
    if not sound:
        raise DamagedStore(f"{path} was altered; {_REMEDY}")
    return (arrays, header["facts"]) if header["config_hash"] == config_hash else None


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
