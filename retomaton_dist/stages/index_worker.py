"""The worker of the stage `index/NAME`: trains the index, and fills shards.

All shards begin with the same trained index, so that distances from different shards compare.
A shard is in memory while it is filled; keys come a chunk at a time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.draw import drawn
from retomaton_dist.errors import BadInput
from retomaton_dist.search.factory import make_index
from retomaton_dist.search.layout import FOLDER, ShardSpan, shard_path, trained_path
from retomaton_dist.search.library import faiss, limit_threads, reason, takes_entries
from retomaton_dist.search.merge import Found
from retomaton_dist.search.probe import ExactNearest, Probe
from retomaton_dist.stages.runner import Done
from storage import columns, files
from storage.files import FileDigest
from storage.guarded import GuardedReader
from storage.store import Store

EXACT_COLUMNS = {"distance": np.float32, "entry": np.int64}
ROWS_AT_ONCE = 65_536
TRAINING = None
"""The payload of the unit that trains."""


@dataclass(frozen=True)
class IndexTask:
    """What a worker needs to know of the index that is being built; unit `training` trains it."""

    name: str
    factory: str
    threads: int
    sample: int
    seed: int
    training: int


class IndexWorker:
    """Trains on a sorted random sample of all entries; fills shards.

    The probe's exact neighbours among a shard's keys are found on the way.
    """

    def __init__(self, reader: GuardedReader, task: IndexTask, probe: Probe) -> None:
        self._reader, self._task, self._probe = reader, task, probe
        limit_threads(task.threads, task.factory)

    def run(self, number: int, payload: ShardSpan | None) -> Done:
        """Write the trained, empty index, or a shard and the exact neighbours in it."""
        return self._train() if payload is TRAINING else self._fill(number, payload)

    @property
    def _store(self) -> Path:
        return self._reader.store.path

    def _train(self) -> Done:
        task, shape = self._task, self._reader.shape
        index = make_index(task.factory, shape.dimension, shape.entries)
        if task.sample:
            self._train_on_sample(index)
        path = trained_path(task.name)
        return Done({path: write_index(self._store / path, index)})

    def _train_on_sample(self, index: Any) -> None:
        task, shape = self._task, self._reader.shape
        entries = np.sort(drawn(shape.entries, task.sample, task.seed))
        rows = np.empty((len(entries), shape.dimension), np.float32)
        for start in range(0, len(entries), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            rows[block] = self._reader.rows(entries[block])
        try:
            index.train(rows)
        except RuntimeError as error:
            raise BadInput(
                f"--factory {task.factory}: FAISS cannot train it on {len(rows):,} entries: "
                f"{reason(error)}"
            ) from error

    def _fill(self, number: int, span: ShardSpan) -> Done:
        task = self._task
        index, exact = self._fresh(), ExactNearest(self._probe)
        numbered = takes_entries(index)
        for first, keys in self._reader.key_chunks(range(*span.chunks)):
            wide = keys.astype(np.float32)
            if numbered:
                index.add_with_ids(wide, np.arange(first, first + len(keys)))
            else:
                index.add(wide)
            exact.show(first, keys)
        path = shard_path(task.name, number)
        written = {path: write_index(self._store / path, index)}
        written |= _write_exact(self._store, task.name, number, exact.result())
        return Done(written)

    def _fresh(self) -> Any:
        """The trained index, as the record of its unit says it was written."""
        task, stage = self._task, f"{FOLDER}/{self._task.name}"
        path = trained_path(task.name)
        record = Store.open(self._store).record(stage, task.training)
        self._reader.check_file(self._store / path, record.files[path], stage)
        return faiss.read_index(str(self._store / path))


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
