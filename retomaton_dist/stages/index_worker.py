"""The workers of the stage `index`: one trains the index, the others fill a shard each.

All shards begin with the same trained index, so that distances from different shards compare.
A shard is in memory while it is filled; keys come a chunk at a time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.draw import drawn
from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.search.factory import make_index
from retomaton_dist.search.keys import CheckedKeys
from retomaton_dist.search.layout import FOLDER, Span, shard_path, trained_path
from retomaton_dist.search.library import faiss, limit_threads, reason, takes_entries
from retomaton_dist.search.merge import Found
from retomaton_dist.search.probe import ExactNearest, Probe
from storage import columns, files, records
from storage.canonical import Json
from storage.datastore import Datastore, Shape
from storage.files import FileDigest
from storage.records import Record

EXACT_COLUMNS = {"distance": np.float32, "entry": np.int64}
ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class IndexTask:
    """What a worker needs to know of the index that is being built."""

    store: Path
    name: str
    config_hash: str
    factory: str
    threads: int

    def record(self, unit: int, written: dict[str, FileDigest], facts: Json) -> None:
        """Declare a unit done."""
        record = Record(unit, self.config_hash, written, facts)
        records.write(self.store, f"{FOLDER}/{self.name}", record)


class TrainWorker:
    """Trains the index on a sorted random sample of all entries."""

    def __init__(self, task: IndexTask, datastore: Datastore, sample: int, seed: int) -> None:
        self._task, self._datastore, self._sample, self._seed = task, datastore, sample, seed

    def run(self, unit: int) -> Json:
        """Write the trained, empty index, then its record."""
        task, shape = self._task, self._datastore.shape
        limit_threads(task.threads, task.factory)
        index = make_index(task.factory, shape.dimension, shape.entries)
        if self._sample:
            self._train(index, shape)
        path = trained_path(task.name)
        facts = {"entries": self._sample}
        task.record(unit, {path: write_index(task.store / path, index)}, facts)
        return facts

    def _train(self, index: Any, shape: Shape) -> None:
        entries = np.sort(drawn(shape.entries, self._sample, self._seed))
        rows = np.empty((len(entries), shape.dimension), np.float32)
        for start in range(0, len(entries), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            rows[block] = self._datastore.keys[entries[block]]
        try:
            index.train(rows)
        except RuntimeError as error:
            raise BadInput(
                f"--factory {self._task.factory}: FAISS cannot train it on {len(rows):,} entries: "
                f"{reason(error)}"
            ) from error


class ShardWorker:
    """Fills shards, and finds the probe's exact neighbours among their keys on the way."""

    def __init__(
        self, task: IndexTask, keys: CheckedKeys, probe: Probe, trained: FileDigest
    ) -> None:
        self._task, self._keys, self._probe, self._trained = task, keys, probe, trained

    def run(self, unit: tuple[int, Span]) -> Json:
        """Write the shard and the exact neighbours, then the record."""
        number, span = unit
        task = self._task
        limit_threads(task.threads, task.factory)
        index, exact = self._fresh(), ExactNearest(self._probe)
        numbered = takes_entries(index)
        for first, keys in self._keys.chunks(range(*span.chunks)):
            wide = keys.astype(np.float32)
            if numbered:
                index.add_with_ids(wide, np.arange(first, first + len(keys)))
            else:
                index.add(wide)
            exact.show(first, keys)
        path = shard_path(task.name, number)
        written = {path: write_index(task.store / path, index)}
        written |= _write_exact(task.store, task.name, number, exact.result())
        facts = {"entries": span.last - span.first}
        task.record(number, written, facts)
        return facts

    def _fresh(self) -> Any:
        path = self._task.store / trained_path(self._task.name)
        if files.digest_of(path) != self._trained:
            raise DamagedStore(
                f"{path}: its contents were altered; `retomaton verify {self._task.store} "
                f"--repair`, then the same command again"
            )
        return faiss.read_index(str(path))


def write_index(path: Path, index: Any) -> FileDigest:
    """Write an index durably, a block at a time."""
    with files.replacing(path) as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
    return file.result


def exact_path(name: str, number: int) -> str:
    """Where a shard's share of the exact neighbours lies, relative to the store."""
    return f"{FOLDER}/{name}/exact-{number:05d}.arrow"


def read_exact(store: Path, name: str, number: int, probe: Probe) -> Found:
    """The probe's exact nearest entries among those of one shard."""
    found = columns.map_columns(store / exact_path(name, number), EXACT_COLUMNS)
    shape = (len(probe.entries), probe.k + 1)
    return found["distance"].reshape(shape), found["entry"].reshape(shape)


def _write_exact(store: Path, name: str, number: int, exact: Found) -> dict[str, FileDigest]:
    path = exact_path(name, number)
    distance, entry = exact
    flat: dict[str, NDArray[Any]] = {"distance": distance.ravel(), "entry": entry.ravel()}
    return {path: columns.write_columns(store / path, flat)}
