"""What a stage costs: the formulas, of which the dry run and `retomaton plan` have the same ones.

Work over rates of one worker is `core_seconds`, which workers share; `alone` is what one of them
does while the others wait. Disk is what a stage leaves, `scratch` what it needs besides while it
runs. Memory is that of one worker, of no file: pages of mapped files are the page cache's.
"""

import math
from dataclasses import dataclass

from retomaton_dist.clustering.samples import passes
from retomaton_dist.clustering.two_level import TwoLevel, cells_for, cells_have_cells
from retomaton_dist.dry_run.rates import Rates
from retomaton_dist.search.blocks import RUN_BYTES
from retomaton_dist.stages.index_cells import ITERATIONS
from retomaton_dist.stages.statistics import UNIT_ENTRIES as COUNTED_UNIT
from retomaton_dist.storage.datastore import Shape

KEY_UNIT = 1 << 18  # entries of a unit of k-means, and of filling an index
CODE_UNIT = 1 << 17
SUMS_BYTES = 256 << 20
# FAISS: codewords of a part, iterations, and the sample that they are learned from.
PQ_WORDS, PQ_ITERATIONS = 256, 25
PQ_SAMPLE = 256 * PQ_WORDS
INDEX_ROWS = 65_536
CODEC_ITERATIONS = 12
BLOCK_BYTES = 128 << 20
# Of an entry whose place is being found: in slot order, in context order.
PLACING_BYTES, SORTING_BYTES = 48, 80
# Of two tokens that follow each other, which any entry may be the only ones of.
PAIR_BYTES = 8


@dataclass(frozen=True)
class StageEstimate:
    """What one stage would leave and need; seconds are infinite where nobody knows.

    `reads` are bytes read from the store, `passes` how often all keys are read; `again` is the size
    of columns that every unit reads: where memory holds them, a node reads them once. `exchanged`
    are the bytes that workers send each other, `unit` the seconds of the longest unit.
    """

    stage: str
    makes: str
    disk: float
    memory: float
    workers: int
    core_seconds: float
    alone: float = 0.0
    unit: float = 0.0
    reads: float = 0.0
    passes: float = 0.0
    again: float = 0.0
    scratch: float = 0.0
    exchanged: float = 0.0
    timing: str = "derived"

    @property
    def seconds(self) -> float:
        """From its first unit to its end, the starting of workers left out."""
        return self.alone + self.core_seconds / self.workers


@dataclass(frozen=True)
class Work:
    """What there is to do: entries in chunks, of so many tokens, by workers of these rates."""

    shape: Shape
    workers: int
    rates: Rates
    vocabulary: int

    @property
    def key_bytes(self) -> float:
        """Size of all keys."""
        return 2.0 * self.shape.entries * self.shape.dimension

    def memory(self, own: float) -> float:
        """Bytes of a worker that holds so much, beside what any worker holds."""
        return self.rates.worker_bytes + own


@dataclass(frozen=True)
class KmeansSizes:
    """A k-means: K states learned from so many rows; `plain` compares a row with all of them."""

    states: int
    rows: int
    iterations: int
    plain: bool

    @property
    def per_row(self) -> float:
        """States that a row is compared with, and cells to find those."""
        return float(self.states) if self.plain else _compared_in_cells(self.states)

    @property
    def passes(self) -> float:
        """How often all iterations together see every row."""
        return passes(self.rows, self.states, self.iterations)

    @property
    def pairs(self) -> float:
        """Pairs of a row and a centre that the training compares."""
        refining = self.rows * self.passes * self.per_row
        return refining if self.plain else refining + self._starting

    @property
    def _starting(self) -> float:
        """The same for the first centroids: finding cells, seeing them, and splitting them."""
        settings, deep = TwoLevel(), cells_have_cells(self.states)
        cells, each = cells_for(self.states), settings.split_iterations
        found = KmeansSizes(
            cells, min(self.rows, settings.rows_per_state * cells), each, plain=not deep
        )
        split = min(self.rows, settings.rows_per_state * self.states)
        branch = max(1, self.states // cells)
        splitting = split * branch * passes(max(1, split // cells), branch, each)
        return found.pairs + self.rows * found.per_row + splitting


def _compared_in_cells(states: int) -> float:
    """Centres that a row is compared with on its way through cells, level by level."""
    cells = cells_for(states)
    above = _compared_in_cells(cells) if cells_have_cells(states) else float(cells)
    return above + TwoLevel().probes * states / cells


def kmeans(name: str, sizes: KmeansSizes, work: Work) -> StageEstimate:
    """An iteration reads a row once, if it sees it; rows are sorted by cell, once, on disk."""
    entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
    pairs = sizes.pairs + entries * sizes.per_row
    sampled = 2.0 * sizes.rows * dimension
    centroids = 4.0 * sizes.states * dimension
    moved = sizes.iterations * sizes.states * (12 * dimension + 8.0)
    reads = sampled * (1 + sizes.passes) + work.key_bytes
    return StageEstimate(
        stage="cluster",
        makes=f"{name}: {sizes.states:,} states, at most {sizes.iterations} iterations",
        disk=4.0 * entries + centroids + 8.0 * sizes.states,
        memory=work.memory(min(SUMS_BYTES, 2 * centroids) + 6.0 * KEY_UNIT * dimension),
        workers=work.workers,
        core_seconds=pairs * dimension / rates.products + 2 * work.key_bytes / rates.hashed,
        unit=min(KEY_UNIT, entries) * sizes.per_row * dimension / rates.products,
        reads=reads,
        passes=reads / work.key_bytes,
        scratch=centroids + (0.0 if sizes.plain else sampled),
        exchanged=moved,
    )


def greedy(name: str, neighbours: int, exact: bool, work: Work) -> StageEstimate:
    """Every pair of entries is compared if they are few; beyond that nobody knows."""
    entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
    pairs = float(entries) * entries * dimension / rates.products
    return StageEstimate(
        stage="cluster",
        makes=f"{name}: merged with up to {neighbours} neighbours",
        disk=(4.0 + 8 + 8 + 8 * neighbours) * entries,
        memory=work.memory(10.0 * dimension * entries if exact else 0),
        workers=work.workers,
        core_seconds=pairs + work.key_bytes / rates.hashed if exact else math.inf,
        reads=work.key_bytes,
        passes=1,
    )


@dataclass(frozen=True)
class IndexSizes:
    """An index: cells (0: none), bytes of an entry, codewords per part, sample, shards, queries."""

    cells: int
    entry_bytes: int
    words: int
    sample: int
    shards: int
    queries: int
    neighbours: int
    known: bool


def index(makes: str, sizes: IndexSizes, work: Work) -> StageEstimate:
    """Cells are found by our own k-means and filled in units, which are merged on disk."""
    entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
    filled = float(sizes.entry_bytes) * entries
    trained = 4.0 * sizes.cells * dimension
    exact = 12.0 * sizes.queries * (sizes.neighbours + 1) * sizes.shards
    seen = sizes.sample * passes(sizes.sample, max(1, sizes.cells), ITERATIONS)
    coarse = seen * sizes.cells * dimension / rates.products
    compared = (sizes.queries + sizes.cells + sizes.words) * dimension / rates.searched
    hashed = (work.key_bytes + 2 * filled) / rates.hashed
    words = PQ_SAMPLE * sizes.words * PQ_ITERATIONS * dimension / rates.searched
    unit = min(KEY_UNIT, entries)
    reads = 2.0 * sizes.sample * dimension + work.key_bytes + filled
    return StageEstimate(
        stage="index",
        makes=makes,
        disk=filled + (sizes.shards + 1) * trained + exact,
        memory=work.memory(
            3 * (float(sizes.entry_bytes) * unit + 4.0 * INDEX_ROWS * dimension)
            + 4 * RUN_BYTES
            + 2 * trained
        ),
        workers=work.workers,
        core_seconds=coarse + entries * compared + hashed if sizes.known else math.inf,
        alone=words,
        unit=max(words, unit * compared),
        reads=reads,
        passes=(reads - filled) / work.key_bytes,
        scratch=filled,
        exchanged=4.0 * sizes.cells * dimension * ITERATIONS,
    )


def codec(name: str, code_size: int, cells: int, sample: int, work: Work) -> StageEstimate:
    """One unit trains; the others encode."""
    entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
    alone, unit = CODEC_ITERATIONS * sample / rates.encoded, min(CODE_UNIT, entries)
    return StageEstimate(
        stage="compile",
        makes=f"codecs/{name}: {code_size} bytes per entry, {cells:,} cells",
        disk=(code_size + 2.0 + 4) * entries + 4.0 * (cells + PQ_WORDS) * dimension,
        memory=work.memory(max(24.0 * sample * dimension, 12.0 * unit * dimension)),
        workers=work.workers,
        core_seconds=entries / rates.encoded + work.key_bytes / rates.hashed,
        alone=alone,
        unit=max(alone, unit / rates.encoded),
        reads=work.key_bytes,
        passes=1,
    )


def automaton(
    makes: str, disk: float, row_bytes: int, states: int, unit_entries: int, work: Work
) -> StageEstimate:
    """Every unit looks through states, codes and entries for those that are its own."""
    entries, rates = work.shape.entries, work.rates
    units = -(-entries // unit_entries)
    swept = units * entries * (8.0 + row_bytes)
    per_entry = 1 / rates.placed
    unit = min(unit_entries, entries)
    return StageEstimate(
        stage="compile",
        makes=makes,
        disk=disk,
        memory=work.memory(
            float(PLACING_BYTES) * unit + min(BLOCK_BYTES, row_bytes * unit) + 8.0 * states
        ),
        workers=work.workers,
        core_seconds=entries * per_entry + swept / rates.swept + 2 * disk / rates.hashed,
        unit=unit * per_entry + entries * (4.0 + row_bytes) / rates.swept,
        reads=swept + disk,
        again=entries * (8.0 + row_bytes),
    )


def suffix(makes: str, disk: float, unit_entries: int, work: Work) -> StageEstimate:
    """Every unit looks through the tokens before all entries for those that are its own."""
    entries, rates, unit = work.shape.entries, work.rates, min(unit_entries, work.shape.entries)
    swept = -(-entries // unit_entries) * entries * 4.0
    return StageEstimate(
        stage="suffix",
        makes=makes,
        disk=disk,
        memory=work.memory(float(SORTING_BYTES) * unit),
        workers=work.workers,
        core_seconds=entries / rates.ordered + swept / rates.swept + 2 * disk / rates.hashed,
        unit=unit / rates.ordered + entries * 4.0 / rates.swept,
        reads=swept + 8.0 * entries,
        again=entries * 4.0,
    )


def statistics(work: Work) -> StageEstimate:
    """Units sort their pairs of neighbours; what they leave is joined in the end."""
    entries, rates, unit = work.shape.entries, work.rates, min(COUNTED_UNIT, work.shape.entries)
    pairs = float(PAIR_BYTES) * entries
    return StageEstimate(
        stage="statistics",
        makes="statistics: how tokens go on",
        disk=2.0 * PAIR_BYTES * (work.vocabulary + 1),
        memory=work.memory(4.0 * PAIR_BYTES * unit),
        workers=work.workers,
        core_seconds=entries / rates.placed,
        unit=unit / rates.placed,
        reads=4.0 * entries + pairs,
        scratch=pairs,
    )
