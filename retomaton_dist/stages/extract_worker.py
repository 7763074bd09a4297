"""The worker of the stage `extract`: runs the model over the entries of a unit.

Batches are formed inside a unit, so that what a unit holds never depends on who else works.
"""

from pathlib import Path

import numpy as np
import torch

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.reading import ModelReader
from storage import datastore, records
from storage.canonical import Json
from storage.datastore import Keys, Shape
from storage.files import FileDigest
from storage.records import Record


class KeyReader(ModelReader):
    """Computes the keys of any range of entries."""

    def keys(self, first: int, last: int) -> tuple[Keys, Json]:
        """Keys of the entries first..last-1, and how many tokens were computed for them."""
        keys = np.empty((last - first, self.lm.dimension), np.float16)
        computed = padded = 0
        for inputs, kept in self.windows.batches(self.windows.spans(first, last)):
            hidden = self.lm.keys(torch.from_numpy(inputs)).to(torch.float16).cpu().numpy()
            for row, item in zip(hidden, kept, strict=True):
                found = row[item.start : item.start + item.last - item.first]
                self._check(found, first + item.first)
                keys[item.first : item.last] = found
            computed += sum(item.window.length for item in kept)
            padded += inputs.size
        return keys, {"computed_tokens": computed, "padded_tokens": padded}

    def _check(self, found: Keys, first: int) -> None:
        sound = np.isfinite(found).all(axis=1)
        if sound.all():
            return
        entry = first + int(np.argmin(sound))
        document = self.corpus[self.corpus.document_of(entry)]
        raise ModelError(
            f"the key of entry {entry} (document {document.name!r} of {document.source}, position "
            f"{entry - document.first_entry}) is NaN or beyond float16's range; try another --key "
            f"or --dtype float32"
        )


class ExtractWorker:
    """Writes the chunks of the datastore that units consist of."""

    def __init__(self, config_hash: str, shape: Shape, unit_chunks: int, reader: KeyReader) -> None:
        self._config_hash, self._shape = config_hash, shape
        self._unit_chunks, self._reader = unit_chunks, reader
        if reader.lm.dimension != shape.dimension:
            raise ModelError(
                f"the keys of {reader.lm.name!r} have {reader.lm.dimension} numbers, not "
                f"{shape.dimension} as its config says; try another --key"
            )

    @property
    def _store(self) -> Path:
        return self._reader.corpus.store

    def run(self, unit: tuple[int, range]) -> Json:
        """Write keys, values and pointers of the unit's chunks, then its record."""
        number, chunks = unit
        first, last = self._shape.entry_range(chunks)
        keys, facts = self._reader.keys(first, last)
        facts["entries"] = last - first
        files: dict[str, FileDigest] = {}
        for chunk in chunks:
            files |= self._write(chunk, keys, first)
        records.write(self._store, "extract", Record(number, self._config_hash, files, facts))
        return facts

    def _write(self, chunk: int, keys: Keys, offset: int) -> dict[str, FileDigest]:
        first, last = self._shape.chunk_range(chunk)
        corpus = self._reader.corpus
        return datastore.write_chunk(
            self._store,
            chunk,
            keys[first - offset : last - offset],
            corpus.values(first, last),
            corpus.pointers(first, last),
        )
