"""A clustering: the state of every entry, and the states' centroids and sizes.

    states/NAME/state_of_entry.arrow   state of each entry
    states/NAME/sizes.arrow            number of members of each state
    states/NAME/centroids.arrow        K x d numbers, row after row (k-means)
    states/NAME/representatives.arrow  the entry whose key stands for each state (greedy)

A clustering without clusters (`none`) has no files: every entry is its own state.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage import columns
from retomaton_dist.storage.column_folder import map_column
from retomaton_dist.storage.datastore import Datastore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.pickling import PicklesFieldsOnly

FOLDER = "states"
STATE_TYPE = np.uint32
ALL = slice(None)

StateNumbers = NDArray[np.uint32]
Centroids = NDArray[np.float32]


def folder_of(store: Path, name: str) -> Path:
    """Where a clustering lies."""
    return store / FOLDER / name


def write_part(store: Path, name: str, unit: int, states: StateNumbers) -> dict[str, FileDigest]:
    """Write the states of one unit's entries; return the file, relative to the store."""
    return _write(store, _part(store, name, unit), {"state": states})


def write_column(
    store: Path, name: str, column: str, values: NDArray[Any]
) -> dict[str, FileDigest]:
    """Write one column of a clustering; return the file, relative to the store."""
    return _write(store, folder_of(store, name) / f"{column}.arrow", {column: values})


def write_neighbours(
    store: Path, name: str, unit: int, near: NDArray[np.int64]
) -> dict[str, FileDigest]:
    """Write the neighbours of one unit's entries, one column per rank; -1 where there is none."""
    ranks = {f"near{rank}": column for rank, column in enumerate(near.T)}
    return _write(store, _part(store, name, unit), ranks)


def read_neighbours(
    store: Path, name: str, unit: int, ranks: int, rows: slice = ALL
) -> NDArray[np.int64]:
    """Some rows of the neighbours that `write_neighbours` wrote, [entries of the unit, ranks]."""
    names = {f"near{rank}": np.int64 for rank in range(ranks)}
    mapped = columns.map_columns(_part(store, name, unit), names)
    return np.stack([mapped[rank][rows] for rank in names], axis=1)


def merge_parts(store: Path, name: str, units: int) -> dict[str, FileDigest]:
    """Join the parts of all units, in order, into the state of every entry."""
    path = folder_of(store, name) / "state_of_entry.arrow"
    parts = (_part(store, name, unit) for unit in range(units))
    digest = columns.concatenate(path, parts, {"state": STATE_TYPE})
    return {path.relative_to(store).as_posix(): digest}


def parts_of(store: Path, name: str) -> Path:
    """Where units leave their parts until they are merged."""
    return folder_of(store, name) / "parts"


@dataclass(frozen=True)
class States(PicklesFieldsOnly):
    """Read access to a finished clustering, memory-mapped.

    `algorithm` is kmeans, greedy or none; `count` is K; `datastore` holds the keys.
    """

    folder: Path
    algorithm: str
    count: int
    datastore: Datastore

    def __repr__(self) -> str:
        entries = self.datastore.shape.entries
        return (
            f"<States {self.folder}: {self.count:,} {self.algorithm} states of {entries:,} entries>"
        )

    @cached_property
    def state_of_entry(self) -> StateNumbers:
        """The state of every entry."""
        entries = self.datastore.shape.entries
        if self.algorithm == "none":
            return np.arange(entries, dtype=STATE_TYPE)
        return map_column(self.folder / "state_of_entry.arrow", "state", STATE_TYPE, entries)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of members of every state."""
        if self.algorithm == "none":
            return np.ones(self.count, np.int64)
        return self._column("sizes", np.int64, self.count)

    @cached_property
    def centroids(self) -> NDArray[Any]:
        """What stands for each state, [K, d]: a mean (kmeans), or the key of a member."""
        if self.algorithm == "none":
            return self.datastore.keys
        if self.algorithm == "greedy":
            chosen = self._column("representatives", np.int64, self.count)
            return np.asarray(self.datastore.keys[chosen])
        width = self.datastore.shape.dimension
        flat = self._column("centroids", np.float32, self.count * width)
        return flat.reshape(self.count, width)

    def _column(self, name: str, dtype: type, length: int) -> NDArray[Any]:
        return map_column(self.folder / f"{name}.arrow", name, dtype, length)


def _part(store: Path, name: str, unit: int) -> Path:
    return parts_of(store, name) / f"unit-{unit:05d}.arrow"


def _write(store: Path, path: Path, named: dict[str, NDArray[Any]]) -> dict[str, FileDigest]:
    return {path.relative_to(store).as_posix(): columns.write_columns(path, named)}
