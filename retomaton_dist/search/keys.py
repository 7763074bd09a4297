"""Keys of a datastore a chunk at a time, each checked against the digest it was written with."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retomaton_dist.errors import DamagedStore
from storage import records
from storage.datastore import Datastore, Keys
from storage.files import FileDigest
from storage.store import Store


@dataclass(frozen=True)
class CheckedKeys:
    """Streams keys; `digests` are those of the chunk files, by path relative to the store."""

    store: Path
    datastore: Datastore
    digests: Mapping[str, FileDigest]

    @classmethod
    def open(cls, store: Store) -> "CheckedKeys":
        """Find out what every chunk of keys must look like, from the records of extraction."""
        stage = store.stage("extract")
        digests: dict[str, FileDigest] = {}
        for unit in range(stage.units):
            found = records.read(store.path, "extract", unit, stage.config_hash).files
            digests |= {path: digest for path, digest in found.items() if "/keys/" in path}
        return cls(store.path, store.datastore(), digests)

    def chunks(self, chunks: range) -> Iterator[tuple[int, Keys]]:
        """First entry and keys of each chunk, in order; altered ones are damage."""
        shape = self.datastore.shape
        for chunk in chunks:
            first, last = shape.chunk_range(chunk)
            data = (self.store / self._path(chunk)).read_bytes()
            if hashlib.sha256(data).hexdigest() != self.digests[self._path(chunk)].digest:
                raise DamagedStore(
                    f"{self.store / self._path(chunk)}: its contents were altered; "
                    f"`retomaton verify {self.store} --repair`, then extract again"
                )
            rows = np.frombuffer(data, "<f2").reshape(-1, shape.dimension)
            yield first, rows[: last - first]

    def _path(self, chunk: int) -> str:
        return self.datastore.chunk_file("keys", chunk).relative_to(self.store).as_posix()
