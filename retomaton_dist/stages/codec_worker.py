"""The worker of the stage `codec/NAME`: trains codebooks, or encodes the keys of whole chunks."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.codec.training import Codebooks, decode, encode, train
from storage import codec, preallocated, records
from storage.canonical import Json
from storage.codec import CodecFiles
from storage.files import FileDigest
from storage.records import Record
from storage.store import Store
from storage.verify import check_chunks

SEED = 1


class CodecWorker:
    """Writes the codebooks (unit 0), and the codes of whole chunks (the others)."""

    def __init__(self, store: Store, files: CodecFiles, sample: int, config_hash: str) -> None:
        self._store, self._files, self._sample = store, files, sample
        self._config_hash = config_hash
        self._datastore = store.datastore()

    def run(self, unit: tuple[int, range | None]) -> Json:
        """Do the unit, then write its record."""
        number, chunks = unit
        files, facts = self._train() if chunks is None else self._encode(chunks)
        record = Record(number, self._config_hash, files, facts)
        records.write(self._store.path, f"codec/{self._files.folder.name}", record)
        return {"entries": facts["entries"]}

    @cached_property
    def _books(self) -> Codebooks:
        return Codebooks(self._files.centroids, self._files.codebooks)

    def _train(self) -> tuple[dict[str, FileDigest], Json]:
        keys = self._datastore.keys
        drawn = np.random.default_rng(SEED).choice(len(keys), self._sample, replace=False)
        books = train(keys[np.sort(drawn)], self._files.cells, self._files.code_size, SEED)
        name = self._files.folder.name
        files = codec.write_books(self._store.path, name, books.centroids, books.codebooks)
        return files, {"entries": self._sample}

    def _encode(self, chunks: range) -> tuple[dict[str, FileDigest], Json]:
        check_chunks(self._store, chunks, ("keys",))
        first, last = self._datastore.shape.entry_range(chunks)
        keys = self._datastore.keys[first:last]
        made = encode(keys, self._books)
        self._fill("cells", first, made.cells)
        self._fill("codes", first * self._files.code_size, made.codes.reshape(-1))
        self._fill("brackets", first, made.brackets)
        lost = keys.astype(np.float32) - decode(made, self._books)
        error, length = _squares(lost), _squares(keys - self._books.centroids.mean(axis=0))
        return {}, {"entries": last - first, "error": error, "length": length}

    def _fill(self, name: str, first: int, rows: NDArray[Any]) -> None:
        preallocated.part(self._files.parts, name).fill(first, [rows])


def _squares(rows: NDArray[Any]) -> float:
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
