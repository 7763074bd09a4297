"""The worker of the stage `index/NAME`: trains the index, fills it, and merges what was filled.

All shards begin with the same trained index, so that distances from different shards compare.
Keys come a chunk at a time. See `index_units.py` for who reads what others leave.
"""

from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.draw import drawn
from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.search.blocks import encode, merge_blocks, write_block
from retomaton_dist.search.codebooks import (
    Rows,
    assemble,
    codec_rows,
    columns_of,
    extremes,
    residuals,
    train_books,
)
from retomaton_dist.search.factory import make_index
from retomaton_dist.search.layout import FOLDER, ShardSpan, shard_path, trained_path
from retomaton_dist.search.library import faiss, ivf_of, limit_threads, reason, takes_entries
from retomaton_dist.search.merge import Found, merge
from retomaton_dist.search.probe import ExactNearest, Probe
from retomaton_dist.stages.index_recipe import ROWS_AT_ONCE
from retomaton_dist.stages.index_units import (
    Block,
    BookGroup,
    IndexUnit,
    ResidualPart,
    nearest_path,
    part_path,
)
from retomaton_dist.stages.kmeans_job import open_trained
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage import columns, files
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store

if TYPE_CHECKING:
    from retomaton_dist.stages.index import IndexPlan

EXACT_COLUMNS = {"distance": np.float32, "entry": np.int64}


class IndexWorker:
    """Does units of an index; samples are drawn at random and in ascending order."""

    def __init__(self, plan: "IndexPlan", probe: Probe) -> None:
        self._plan, self._probe, self._reader = plan, probe, GuardedReader(plan.store)
        self._name, self._factory = plan.settings.name, plan.layout.factory
        self._units, self._store = plan.parts, plan.store.path
        limit_threads(plan.threads, self._factory)

    def run(self, number: int, payload: IndexUnit) -> Done:
        """Do a unit, whichever kind it is."""
        match payload:
            case ResidualPart(first, last):
                return self._residuals(number, first, last)
            case BookGroup(first, last):
                return self._books(number, first, last)
            case Block(_, first, last):
                return self._block(number, range(first, last))
            case ShardSpan():
                return self._merge(number) if self._units.blocks else self._fill(number, payload)
        return self._train() if self._plan.cell_files is None else self._assemble()

    @cached_property
    def _centroids(self) -> Rows:
        """Of the cells. One for which no key was left has no centroid, and is no cell."""
        assert self._plan.cell_files is not None, "cells of an index that is trained whole"
        found = open_trained(self._reader, self._plan.cell_files).centroids
        return np.ascontiguousarray(found[np.isfinite(found).all(axis=1)])

    @cached_property
    def _codec_sample(self) -> NDArray[np.int64]:
        return self._drawn(codec_rows(self._plan.empty, self._plan.recipe.sample))

    def _drawn(self, count: int) -> NDArray[np.int64]:
        return np.sort(drawn(self._reader.shape.entries, count, self._plan.settings.seed))

    def _residuals(self, number: int, first: int, last: int) -> Done:
        """Write what some rows of the codec's sample are beside their centroids, or their extremes.

        Books are trained on the rows themselves.
        """
        keys = self._reader.rows(self._codec_sample[first:last]).astype(np.float32)
        rows = residuals(self._centroids, keys)
        return self._leave(number, rows if self._units.books else extremes(rows))

    def _books(self, number: int, first: int, last: int) -> Done:
        """Train some books of the codec on all residuals."""
        used = columns_of(self._plan.empty, first, last)
        rows = np.concatenate([part[:, used] for part in self._residual_parts()])
        try:
            return self._leave(number, train_books(self._plan.empty, first, last, rows))
        except RuntimeError as error:
            raise self._untrainable(len(rows), error) from error

    def _assemble(self) -> Done:
        """Put the trained index together."""
        books = [self._rows(number) for number in self._units.rounds[1]]
        return self._trained(
            assemble(self._factory, self._centroids, self._residual_parts(), books)
        )

    def _residual_parts(self) -> list[Rows]:
        width = self._reader.shape.dimension
        return [self._rows(number).reshape(-1, width) for number in self._units.rounds[0]]

    def _train(self) -> Done:
        """Have FAISS train the whole index, on the whole sample."""
        shape, sample = self._reader.shape, self._plan.recipe.sample
        index = make_index(self._factory, shape.dimension, shape.entries)
        if sample:
            entries = self._drawn(sample)
            rows = np.empty((len(entries), shape.dimension), np.float32)
            for start in range(0, len(entries), ROWS_AT_ONCE):
                block = slice(start, start + ROWS_AT_ONCE)
                rows[block] = self._reader.rows(entries[block])
            try:
                index.train(rows)
            except RuntimeError as error:
                raise self._untrainable(len(rows), error) from error
        return self._trained(index)

    def _trained(self, index: Any) -> Done:
        path, ivf = trained_path(self._name), ivf_of(index)
        cells = 0 if ivf is None else int(ivf.nlist)
        return Done({path: write_index(self._store / path, index)}, {"cells": cells})

    def _untrainable(self, rows: int, error: RuntimeError) -> BadInput:
        return BadInput(
            f"--factory {self._factory}: FAISS cannot train it on {rows:,} entries: {reason(error)}"
        )

    def _block(self, number: int, chunks: range) -> Done:
        """Write the lists of some chunks, and the probe's exact neighbours among them."""
        index, exact = self._codebook, ExactNearest(self._probe)
        encoded = []
        for first, keys in self._reader.key_chunks(chunks):
            encoded.append(encode(index, keys.astype(np.float32)))
            exact.show(first, keys)
        first, _ = self._reader.shape.entry_range(chunks)
        path = self._store / part_path(self._name, number)
        lists = write_block(path, int(ivf_of(index).nlist), first, encoded)
        nearest = nearest_path(self._name, number)
        found = _write_exact(self._store / nearest, exact.result())
        return Done(facts={"part": asdict(lists), "exact": asdict(found)})

    def _merge(self, shard: int) -> Done:
        """Make a shard of its blocks, a run of cells at a time."""
        name, numbers = self._name, self._units.block_numbers(shard)
        blocks = {
            self._store / part_path(name, number): FileDigest(**self._record(number).facts["part"])
            for number in numbers
        }
        nearest = (self._scratch(number, nearest_path(name, number), "exact") for number in numbers)
        path, exact = shard_path(name, shard), exact_path(name, shard)
        written = {path: merge_blocks(self._store / path, self._codebook, blocks)}
        written[exact] = _write_exact(self._store / exact, merged_exact(nearest, self._probe))
        return Done(written)

    def _fill(self, number: int, span: ShardSpan) -> Done:
        """Fill a shard in memory."""
        index, exact = self._fresh(), ExactNearest(self._probe)
        numbered = takes_entries(index)
        for first, keys in self._reader.key_chunks(range(*span.chunks)):
            wide = keys.astype(np.float32)
            if numbered:
                index.add_with_ids(wide, np.arange(first, first + len(keys)))
            else:
                index.add(wide)
            exact.show(first, keys)
        path, nearest = (make(self._name, number) for make in (shard_path, exact_path))
        written = {path: write_index(self._store / path, index)}
        written[nearest] = _write_exact(self._store / nearest, exact.result())
        return Done(written)

    @cached_property
    def _codebook(self) -> Any:
        """The trained index, which stays empty."""
        return self._fresh()

    def _fresh(self) -> Any:
        """The trained index, as the record of its unit says it was written."""
        path, record = trained_path(self._name), self._record(self._units.training)
        self._reader.check_file(self._store / path, record.files[path], self._plan.name)
        return faiss.read_index(str(self._store / path))

    def _record(self, unit: int) -> Record:
        return Store.open(self._store).record(self._plan.name, unit)

    def _leave(self, number: int, rows: Rows) -> Done:
        """Leave rows for other units."""
        path = self._store / part_path(self._name, number)
        return Done(facts={"part": asdict(files.write(path, np.ascontiguousarray(rows)))})

    def _rows(self, number: int) -> Rows:
        """The rows that another unit has left, flat and mapped."""
        path = self._scratch(number, part_path(self._name, number), "part")
        return np.memmap(path, np.float32, "r")

    def _scratch(self, number: int, name: str, fact: str) -> Path:
        """Scratch of another unit, as its record says it was written."""
        path = self._store / name
        problem = files.problem_of(path, FileDigest(**self._record(number).facts[fact]))
        if problem:
            path.unlink(missing_ok=True)
            raise DamagedStore(f"{path}: {problem}; run the same command again: it is made anew")
        return path


def write_index(path: Path, index: Any) -> FileDigest:
    """Write an index durably, a block at a time."""
    with files.replacing(path) as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
    return file.result


def exact_path(name: str, number: int) -> str:
    """Where a shard's share of the exact neighbours lies, relative to the store."""
    return f"{FOLDER}/{name}/exact-{number:05d}.arrow"


def merged_exact(paths: Iterable[Path], probe: Probe) -> Found:
    """The probe's exact nearest entries, of shares in files: two of them are in memory at once."""

    def share(path: Path) -> Found:
        found = columns.map_columns(path, EXACT_COLUMNS)
        shape = (len(probe.entries), probe.k + 1)
        return found["distance"].reshape(shape), found["entry"].reshape(shape)

    return reduce(lambda before, more: merge([before, more], probe.k + 1), map(share, paths))


def _write_exact(path: Path, exact: Found) -> FileDigest:
    distance, entry = exact
    flat: dict[str, NDArray[Any]] = {"distance": distance.ravel(), "entry": entry.ravel()}
    return columns.write_columns(path, flat)
