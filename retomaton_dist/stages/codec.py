"""The stage `codec/NAME`: codes of all entries, from which walking measures distances.

First one unit trains the codebooks on a sample of keys; then units of whole chunks are encoded.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.codec.training import (
    SAMPLE,
    Codebooks,
    choose_cells,
    choose_code_size,
    decode,
    encode,
    train,
)
from retomaton_dist.stages.runner import Done, Plan, chunk_units, chunk_work
from retomaton_dist.storage import codec, preallocated
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.codec import CodecFiles
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store

UNIT_ENTRIES = 1 << 17
SEED = 1
TRAINING = None
"""The payload of the unit that trains."""


@dataclass(frozen=True)
class CodecRecipe:
    """Settings of the codec with every `auto` found out."""

    code_size: int
    cells: int
    sample: int

    @property
    def name(self) -> str:
        """What the codec is called in the store."""
        return f"pq{self.code_size}"


def resolve(entries: int, dimension: int, code_size: int | None) -> CodecRecipe:
    """Choose what is `auto`; refuse parts that do not divide the keys."""
    size = choose_code_size(dimension, code_size)
    return CodecRecipe(size, choose_cells(entries), min(entries, SAMPLE))


@dataclass(frozen=True)
class CodecPlan(Plan[range | None]):
    """The keys of a store, and the codec that they are to have."""

    store: Store
    recipe: CodecRecipe
    threads: int

    merges = True

    @property
    def name(self) -> str:
        """After the size of a code."""
        return f"codec/{self.recipe.name}"

    @cached_property
    def shape(self) -> Shape:
        """Of the datastore."""
        return self.store.shape()

    @cached_property
    def files(self) -> CodecFiles:
        """Where the codec lies."""
        folder = codec.folder_of(self.store.path, self.recipe.name)
        sizes = self.shape.entries, self.shape.dimension, self.recipe.code_size, self.recipe.cells
        return CodecFiles(folder, *sizes)

    @cached_property
    def config(self) -> Json:
        """The keys and the recipe."""
        return {
            "datastore": self.store.stage("extract").digest,
            **self.recipe.__dict__,
            "threads": self.threads,
        }

    @cached_property
    def units(self) -> list[range | None]:
        """The training, then whole chunks."""
        return [TRAINING, *chunk_units(self.shape, UNIT_ENTRIES)]

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        chunks = chunk_units(self.shape, UNIT_ENTRIES)
        return [float(self.recipe.sample), *chunk_work(self.shape, chunks)]

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """Training comes first."""
        return [[0], range(1, len(self.units))]

    def worker(self) -> Callable[[], "CodecWorker"]:
        """Trains or encodes."""
        return partial(CodecWorker, GuardedReader(self.store), self.files, self.recipe.sample)

    def prepare(self) -> None:
        """Make the columns that units fill."""
        shutil.rmtree(self.files.folder, ignore_errors=True)
        preallocated.preallocate(self.files.parts, self.files.columns())

    def finish(self, units: Sequence[Record]) -> Done:
        """Move the filled columns into place."""
        written = dict(units[0].files)
        inside = self.files.folder.relative_to(self.store.path).as_posix()
        filled = preallocated.finish(self.files.parts, self.files.folder, self.files.columns())
        written |= {f"{inside}/{name}.arrow": digest for name, digest in filled.items()}
        error, length = (sum(unit.facts[name] for unit in units[1:]) for name in _SQUARES)
        facts = {
            "entries": self.files.entries,
            "dimension": self.files.dimension,
            "code_size": self.files.code_size,
            "cells": self.files.cells,
            "error": error / length,
        }
        return Done(written, facts)

    def scratch(self) -> Sequence[Path]:
        """Where columns lie while they are filled."""
        return (self.files.parts,)


_SQUARES = ("error", "length")


class CodecWorker:
    """Writes the codebooks, and the codes of whole chunks."""

    def __init__(self, reader: GuardedReader, files: CodecFiles, sample: int) -> None:
        self._reader, self._files, self._sample = reader, files, sample

    def run(self, number: int, payload: range | None) -> Done:  # noqa: ARG002 - columns are shared
        """Train, or encode the unit's chunks."""
        return self._train() if payload is TRAINING else self._encode(payload)

    @cached_property
    def _books(self) -> Codebooks:
        return Codebooks(self._files.centroids, self._files.codebooks)

    def _train(self) -> Done:
        entries = self._reader.shape.entries
        drawn = np.random.default_rng(SEED).choice(entries, self._sample, replace=False)
        keys = self._reader.rows(np.sort(drawn))
        books = train(keys, self._files.cells, self._files.code_size, SEED)
        store, name = self._reader.store.path, self._files.folder.name
        return Done(codec.write_books(store, name, books.centroids, books.codebooks))

    def _encode(self, chunks: range) -> Done:
        first, last = self._reader.shape.entry_range(chunks)
        keys = self._reader.keys(first, last)
        made = encode(keys, self._books)
        self._fill("cells", first, made.cells)
        self._fill("codes", first * self._files.code_size, made.codes.reshape(-1))
        self._fill("brackets", first, made.brackets)
        lost = keys.astype(np.float32) - decode(made, self._books)
        squares = _squares(lost), _squares(keys - self._books.centroids.mean(axis=0))
        return Done(facts=dict(zip(_SQUARES, squares, strict=True)))

    def _fill(self, name: str, first: int, rows: NDArray[Any]) -> None:
        preallocated.part(self._files.parts, name).fill(first, [rows])


def _squares(rows: NDArray[Any]) -> float:
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
