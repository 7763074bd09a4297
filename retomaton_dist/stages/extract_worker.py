"""The worker of the stage `extract`: runs the model over the entries of a unit.

Batches are formed inside a unit, so that what a unit holds never depends on who else works.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.windows import Window, batches, document_windows
from retomaton_dist.settings import ModelSettings
from storage import datastore, records
from storage.canonical import Json
from storage.corpus import Corpus
from storage.datastore import Keys, Shape
from storage.files import FileDigest
from storage.records import Record
from storage.sending import WithoutCaches


@dataclass(frozen=True)
class KeyReader(WithoutCaches):
    """Computes the keys of any range of entries; the model is loaded where it is used."""

    corpus: Corpus
    model: ModelSettings
    device: str
    context: int
    stride: int
    batch_tokens: int

    @cached_property
    def lm(self) -> LanguageModel:
        """The model on its device."""
        return LanguageModel.load(self.model, self.device)

    def windows(self, first: int, last: int) -> list[Window]:
        """The windows that yield the entries first..last-1, in corpus order."""
        corpus = self.corpus
        documents = range(corpus.document_of(first), corpus.document_of(last - 1) + 1)
        return [
            window
            for document in documents
            for window in document_windows(
                document,
                int(corpus.lengths[document]),
                self.context,
                self.stride,
                first - int(corpus.first_entries[document]),
                last - int(corpus.first_entries[document]),
            )
        ]

    def keys(self, first: int, last: int) -> tuple[Keys, Json]:
        """Keys of the entries first..last-1, and how many tokens were computed for them."""
        keys = np.empty((last - first, self.lm.dimension), np.float16)
        windows = self.windows(first, last)
        padded = 0
        for group in batches([window.length for window in windows], self.batch_tokens):
            chosen = [windows[index] for index in group]
            inputs = self._inputs(chosen)
            hidden = self.lm.keys(torch.from_numpy(inputs)).to(torch.float16).cpu().numpy()
            for window, row in zip(chosen, hidden, strict=True):
                self._keep(window, row, keys, first)
            padded += inputs.size
        tokens = sum(window.length for window in windows)
        return keys, {"computed_tokens": tokens, "padded_tokens": padded}

    def _inputs(self, windows: list[Window]) -> NDArray[np.int64]:
        inputs = np.zeros((len(windows), max(window.length for window in windows)), np.int64)
        for row, window in zip(inputs, windows, strict=True):
            stop = window.start + window.length
            row[: window.length] = self.corpus.inputs(window.document, window.start, stop)
        return inputs

    def _keep(self, window: Window, row: Keys, keys: Keys, first: int) -> None:
        """Copy what a window yields to its place; parts outside the unit are dropped."""
        begin = int(self.corpus.first_entries[window.document])
        low = max(begin + window.first, first)
        high = min(begin + window.last, first + len(keys))
        kept = row[low - begin - window.start : high - begin - window.start]
        if not np.isfinite(kept).all():
            entry = low + int(np.argmin(np.isfinite(kept).all(axis=1)))
            self._refuse(entry)
        keys[low - first : high - first] = kept

    def _refuse(self, entry: int) -> None:
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
