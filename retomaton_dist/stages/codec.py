"""The stage `codec/NAME`: codes of all entries, from which walking measures distances.

First one unit trains the codec on a sample of keys; then units of whole chunks are encoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.codec.codec import CodecSizes, KeyCodec
from retomaton_dist.codec.named import codec_named
from retomaton_dist.stages.columns import ColumnsPlan, ColumnsWorker, ColumnUnit
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.runner import Done, chunk_units
from retomaton_dist.storage import codec
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.codec import CodecFiles
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.records import Record

UNIT_ENTRIES = 1 << 17
SEED = 1


@dataclass(frozen=True)
class CodecPlan(ColumnsPlan):
    """The keys of a store, and the codec that they are to have."""

    codec_name: str
    sizes: CodecSizes
    threads: int

    kinds = ("train", "encode")

    @property
    def codec(self) -> KeyCodec:
        """The codec that is trained."""
        return codec_named(self.codec_name)

    @property
    def name(self) -> str:
        """After the codec and the size of a code."""
        return f"codec/{_name(self.codec_name, self.sizes)}"

    @property
    def folder(self) -> Path:
        """Where the codec lies."""
        return self.files.folder

    @cached_property
    def shape(self) -> Shape:
        """Of the datastore."""
        return self.store.shape()

    @cached_property
    def files(self) -> CodecFiles:
        """The codec's columns."""
        folder = self.store.path / codec.FOLDER / _name(self.codec_name, self.sizes)
        rows, books = self.codec.rows(self.sizes), self.codec.books(self.sizes)
        return CodecFiles(folder, self.shape.entries, rows, books)

    @cached_property
    def config(self) -> Json:
        """The keys and the codec's sizes."""
        return {
            "datastore": self.store.stage("extract").digest,
            "code_size": self.sizes.code_size,
            "cells": self.sizes.cells,
            "sample": self.sizes.sample,
            "threads": self.threads,
        }

    def filled(self) -> dict[str, tuple[Any, int]]:
        """The columns with some numbers per entry."""
        return self.files.columns()

    @cached_property
    def units(self) -> list[ColumnUnit]:
        """The training, then whole chunks."""
        ranges = [self.shape.entry_range(chunks) for chunks in _chunks(self.shape)]
        encoded = [ColumnUnit("encode", *bounds, bounds[1] - bounds[0]) for bounds in ranges]
        return [ColumnUnit("train", 0, self.shape.entries, self.sizes.sample), *encoded]

    def worker(self) -> Callable[[], "CodecWorker"]:
        """Trains or encodes."""
        return partial(CodecWorker, self)

    def finish(self, units: Sequence[Record]) -> Done:
        """Move the filled columns into place."""
        error, length = (sum(unit.facts[name] for unit in units[1:]) for name in _SQUARES)
        facts = {
            "entries": self.shape.entries,
            "dimension": self.shape.dimension,
            "code_size": self.sizes.code_size,
            "cells": self.sizes.cells,
            "error": error / length,
        }
        return Done({**units[0].files, **self.listed(self.in_place())}, facts)


_SQUARES = ("error", "length")


def _name(codec_name: str, sizes: CodecSizes) -> str:
    return f"{codec_name}{sizes.code_size}"


def _chunks(shape: Shape) -> list[range]:
    return chunk_units(shape, UNIT_ENTRIES)


class CodecWorker(ColumnsWorker):
    """Writes the codec's books, and the codes of whole chunks."""

    def __init__(self, plan: CodecPlan) -> None:
        super().__init__(plan)
        self._plan, self._reader = plan, GuardedReader(plan.store)

    @cached_property
    def _books(self) -> dict[str, NDArray[Any]]:
        files = self._plan.files
        return {name: files.book(name) for name in files.books}

    def train(self, unit: ColumnUnit) -> Done:
        """Train on a sample that is drawn at random."""
        drawn = np.random.default_rng(SEED).choice(unit.last, unit.entries, replace=False)
        plan, keys = self._plan, self._reader.rows(np.sort(drawn))
        books = plan.codec.train(keys, plan.sizes, SEED)
        return Done(plan.listed(plan.files.write_books(books)))

    def encode(self, unit: ColumnUnit) -> Done:
        """Encode some chunks, and add up what that loses of their keys."""
        plan, keys = self._plan, self._reader.keys(unit.first, unit.last)
        rows = plan.codec.encode(keys, plan.sizes, self._books)
        for name, (_, width) in plan.files.rows.items():
            self.fill(name, unit.first * width, rows[name].reshape(-1))
        lost = plan.codec.lost(keys, plan.sizes, self._books, rows)
        return Done(facts=dict(zip(_SQUARES, lost, strict=True)))


def estimate_codec(codec_name: str, sizes: CodecSizes, work: Work) -> StageEstimate:
    """One unit trains; the others encode."""
    entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
    made, unit = codec_named(codec_name), min(UNIT_ENTRIES, entries)
    alone = made.iterations * sizes.sample / rates.encoded
    books = sum(kind.itemsize * length for kind, length in made.books(sizes).values())
    return StageEstimate(
        stage="compile",
        makes=f"codecs/{_name(codec_name, sizes)}: {sizes.code_size} bytes per entry, "
        f"{sizes.cells:,} cells",
        disk=float(made.row_bytes(sizes)) * entries + books,
        memory=work.memory(max(24.0 * sizes.sample * dimension, 12.0 * unit * dimension)),
        workers=work.workers,
        core_seconds=entries / rates.encoded + work.key_bytes / rates.hashed,
        alone=alone,
        unit=max(alone, unit / rates.encoded),
        reads=work.key_bytes,
        passes=1,
    )
