"""Reading what finished stages wrote, having compared it with its digests first.

For stages: what they make of flipped bits would look sound ever after. A file is read whole once
per process, for its digest, and not again while it is the same file (`verified_files`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage import verified_files
from retomaton_dist.storage.checked import advice
from retomaton_dist.storage.datastore import Datastore, Keys, Shape
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store


@dataclass(frozen=True)
class GuardedReader(PicklesFieldsOnly):
    """The datastore and the columns of a store, checked as they are first read, maps shared.

    One is opened per worker. Altered files are refused by name.
    """

    store: Store

    @cached_property
    def datastore(self) -> Datastore:
        """The maps, for whoever has had their chunks checked."""
        return self.store.datastore()

    @property
    def shape(self) -> Shape:
        """Size of the datastore."""
        return self.datastore.shape

    def keys(self, first: int, last: int) -> Keys:
        """Keys of the entries first..last-1."""
        self.check(("keys",), first, last)
        return self.datastore.keys[first:last]

    def rows(self, entries: NDArray[np.int64]) -> Keys:
        """Keys of some entries; only the chunks that they lie in are checked."""
        for chunk in np.unique(entries // self.shape.chunk_entries).tolist():
            self._check_chunk("keys", chunk)
        return np.asarray(self.datastore.keys[entries])

    def key_chunks(self, chunks: range) -> Iterator[tuple[int, Keys]]:
        """First entry and keys of each chunk, in order."""
        for chunk in chunks:
            first, last = self.shape.chunk_range(chunk)
            yield first, self.keys(first, last)

    def check(self, arrays: Iterable[str], first: int, last: int) -> None:
        """Refuse arrays of the datastore that were altered where the entries first..last-1 lie."""
        size = self.shape.chunk_entries
        for name in arrays:
            for chunk in range(first // size, -(-last // size)):
                self._check_chunk(name, chunk)

    def check_files(self, stage: str, paths: Iterable[str]) -> None:
        """Refuse files of a finished stage, by their paths in the store, that were altered."""
        listed = self.store.stage(stage).files
        for path in paths:
            self.check_file(self.store.path / path, listed[path], stage)

    def check_file(self, path: Path, expected: FileDigest, stage: str) -> None:
        """Refuse a file that is not as its stage wrote it."""
        problem = verified_files.problem_of(path, expected)
        if problem:
            raise DamagedStore(f"{path}: {problem}; {advice(self.store.path, stage)}")

    def _check_chunk(self, name: str, chunk: int) -> None:
        if (name, chunk) in self._checked:
            return
        path = self.datastore.chunk_file(name, chunk)
        unit = chunk // self.store.stage("extract").config["unit_chunks"]
        expected = self._record(unit).files[path.relative_to(self.store.path).as_posix()]
        self.check_file(path, expected, "extract")
        self._checked.add((name, chunk))

    def _record(self, unit: int) -> Record:
        if unit not in self._records:
            self._records[unit] = self.store.record("extract", unit)
        return self._records[unit]

    @cached_property
    def _records(self) -> dict[int, Record]:
        return {}

    @cached_property
    def _checked(self) -> set[tuple[str, int]]:
        return set()
