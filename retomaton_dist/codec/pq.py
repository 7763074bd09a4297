"""The codec `pq`: distances without keys, |q - c - r|^2 = |q - c|^2 - 2<q, r> + bracket.

How keys are encoded is in `pq_encoder.py`, imported where that is done: it needs torch.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.codec.codec import (
    Arrays,
    Codec,
    CodecSizes,
    Column,
    KeyCodec,
    Rows,
    all_numbers,
    read_only,
)
from retomaton_dist.codec.threads import Threads
from retomaton_dist.compiled import Whole, compiled, compiled_sums
from retomaton_dist.errors import BadInput

WORDS = 256
MOST_CODE_BYTES = 64
# 64 keys of the sample for each. More cells gain little (tests/benchmarks/codec_error.py) and cost
# d numbers each to read, for every query that meets them; the format allows 65,536.
MOST_CELLS = 1024
ENTRIES_PER_CELL = 256
SAMPLE = 65_536
ITERATIONS = 12
FETCH = 256
_WORDS = np.uint64(WORDS)
_BLOCK = np.uint64(16)


class PqCodes(NamedTuple):
    """What lies in the automaton: C centroids [C, d], codebooks [M, d / M, 256], and per slot.

    A slot has its cell, M code bytes, and the bracket |r|^2 + 2<c, r>.
    """

    centroids: NDArray[np.float32]
    codebooks: NDArray[np.float32]
    cells: NDArray[np.uint16]
    codes: NDArray[np.uint8]
    brackets: NDArray[np.float32]


class PqQueries(NamedTuple):
    """Queries made ready: tables of -2<q, codeword>, and |q - c|^2 as far as it was asked for."""

    queries: NDArray[np.float32]
    tables: NDArray[np.float32]
    cell_distances: NDArray[np.float32]


class Fetched(NamedTuple):
    """Copies of what is stored about a few slots."""

    cells: NDArray[np.uint16]
    sums: NDArray[np.float32]
    codes: NDArray[np.uint8]


class PqCodec(KeyCodec):
    """A cell's centroid, and the residual cut into M parts, each replaced by one of 256 words."""

    name = "pq"
    iterations = ITERATIONS

    def sizes(self, entries: int, dimension: int, code_size: int | None) -> CodecSizes:
        """M and C as asked or as fits, and the sample."""
        size = choose_code_size(dimension, code_size)
        return CodecSizes(dimension, size, choose_cells(entries), min(entries, SAMPLE))

    def rows(self, sizes: CodecSizes) -> Mapping[str, Column]:
        """Cell, code and bracket of each entry."""
        return {
            "codes": (np.dtype(np.uint8), sizes.code_size),
            "cells": (np.dtype(np.uint16), 1),
            "brackets": (np.dtype(np.float32), 1),
        }

    def books(self, sizes: CodecSizes) -> Mapping[str, Column]:
        """C x d and M x d / M x 256 numbers."""
        kind = np.dtype(np.float32)
        return {
            "centroids": (kind, sizes.cells * sizes.dimension),
            "codebooks": (kind, WORDS * sizes.dimension),
        }

    def train(self, keys: NDArray[Any], sizes: CodecSizes, seed: int) -> Arrays:
        """K-means for the cells, then for the words of each part."""
        from retomaton_dist.codec.pq_encoder import train

        centroids, codebooks = train(keys, sizes.cells, sizes.code_size, seed)
        return {"centroids": centroids, "codebooks": codebooks}

    def encode(self, keys: NDArray[Any], sizes: CodecSizes, books: Arrays) -> Arrays:
        """The nearest cell, and of each part the nearest word."""
        from retomaton_dist.codec.pq_encoder import encode

        return encode(keys, *_shaped(sizes, books))

    def lost(
        self, keys: NDArray[Any], sizes: CodecSizes, books: Arrays, rows: Arrays
    ) -> tuple[float, float]:
        """What words leave of residuals, and what keys differ from the mean of the cells by."""
        error = keys.astype(np.float32) - self.decode(rows, sizes, books)
        apart = keys - _shaped(sizes, books)[0].mean(axis=0)
        squares = [np.einsum("ij,ij->", rows, rows, dtype=np.float64) for rows in (error, apart)]
        return float(squares[0]), float(squares[1])

    def open(self, column: Callable[[str], NDArray[Any]], sizes: CodecSizes) -> Codec:
        """Over codes."""
        codes = column("codes").reshape(-1, sizes.code_size)
        cells, brackets = column("cells"), column("brackets")
        books = {name: column(name) for name in self.books(sizes)}
        return pq_codec(PqCodes(*_shaped(sizes, books), cells, codes, brackets))


class PqDistances(Codec):
    """Distances from codes."""

    def prepared(self, queries: NDArray[np.float32], threads: Threads) -> PqQueries:
        """Tables of products of the queries with all words."""
        codes = self.codes
        ready = PqQueries(
            queries,
            np.empty((len(queries), len(codes.codebooks) * WORDS), np.float32),
            np.empty((len(queries), len(codes.centroids)), np.float32),
        )

        def work(_: int, part: slice) -> None:
            prepare(codes.codebooks, PqQueries(*(array[part] for array in ready)))

        threads.run(work, len(queries))
        return ready

    def keys(self, slots: Rows) -> NDArray[np.float32]:
        """The centroids, and the words in the places of residuals."""
        codes = self.codes
        words = [book[:, codes.codes[slots, part]].T for part, book in enumerate(codes.codebooks)]
        decoded: NDArray[np.float32] = codes.centroids[codes.cells[slots]] + np.hstack(words)
        return decoded


def pq_codec(codes: PqCodes) -> Codec:
    """The codec `pq` over such codes."""
    frozen = PqCodes(*(read_only(array) for array in codes))
    return PqDistances(frozen, codes.centroids.shape[1], measure)


def choose_code_size(dimension: int, asked: int | None) -> int:
    """M: as asked, or the largest divisor of d up to 64."""
    if asked is None:
        sizes = range(min(MOST_CODE_BYTES, dimension), 0, -1)
        return next(size for size in sizes if not dimension % size)
    if asked < 1 or dimension % asked:
        raise BadInput(
            f"--code-size {asked}: keys of {dimension} numbers cannot be cut into {asked} equal "
            f"parts; choose a divisor of {dimension}"
        )
    return asked


def choose_cells(entries: int) -> int:
    """C: a power of two, about 256 entries or more in each, 1,024 at most."""
    wanted = max(1, min(MOST_CELLS, entries // ENTRIES_PER_CELL))
    return 1 << (wanted.bit_length() - 1)


def _shaped(sizes: CodecSizes, books: Arrays) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Centroids [C, d] and codebooks [M, d / M, 256]."""
    words = books["codebooks"].reshape(sizes.code_size, -1, WORDS)
    return books["centroids"].reshape(sizes.cells, -1), words


@compiled_sums
def prepare(codebooks: NDArray[np.float32], ready: PqQueries) -> None:
    """Fill the tables of the queries, and forget the distances to cells."""
    parts, width, words = codebooks.shape
    ready.cell_distances[:] = np.nan
    for part in range(parts):
        for row in range(ready.queries.shape[0]):
            table = ready.tables[row, part * words : (part + 1) * words]
            table[:] = np.float32(0)
            for j in range(width):
                factor = np.float32(-2) * ready.queries[row, part * width + j]
                word = codebooks[part, j]
                for i in range(words):
                    table[i] += factor * word[i]


@compiled_sums
def _squared(query: NDArray[np.float32], centroid: NDArray[np.float32]) -> np.float32:
    total = np.float32(0)
    for i in range(query.shape[0]):
        difference = query[i] - centroid[i]
        total += difference * difference
    return total


@compiled_sums
def _fetch(codes: PqCodes, slots: NDArray[np.int64], near: Fetched) -> None:
    """Copy what is stored about a few slots, in a tight loop where cache misses overlap."""
    stored, copied = codes.codes, near.codes
    for i in range(slots.shape[0]):
        # Unsigned places need no look at their sign.
        slot = np.uint64(max(slots[i], 0))
        near.cells[i] = codes.cells[slot]
        near.sums[i] = codes.brackets[slot]
        for part in range(np.uint64(stored.shape[1])):
            copied[np.uint64(i), part] = stored[slot, part]


@compiled_sums
def _look_up(table: NDArray[np.float32], near: Fetched, count: int) -> None:
    """Add the tables' numbers to the sums, some parts at a time: their tables stay in reach."""
    copied, sums = near.codes, near.sums
    parts = np.uint64(copied.shape[1])
    whole = parts // _BLOCK * _BLOCK
    for block in range(np.uint64(0), whole, _BLOCK):
        for i in range(np.uint64(count)):
            total = np.float32(0)
            place = block * _WORDS
            for part in range(block, block + _BLOCK):
                total += table[place + np.uint64(copied[i, part])]
                place += _WORDS
            sums[i] += total
    for i in range(np.uint64(count)):
        for part in range(whole, parts):
            sums[i] += table[part * _WORDS + np.uint64(copied[i, part])]


@compiled
def _measure(
    codes: PqCodes,
    ready: PqQueries,
    row: Whole,
    slots: NDArray[np.int64],
    distances: NDArray[np.float32],
    near: Fetched,
) -> None:
    """Measure slots from one query; infinite for slots below 0, NaN for cells that are none."""
    table, query, to_cells = ready.tables[row], ready.queries[row], ready.cell_distances[row]
    for first in range(0, slots.shape[0], FETCH):
        some = slots[first : first + FETCH]
        _fetch(codes, some, near)
        _look_up(table, near, some.shape[0])
        for i in range(some.shape[0]):
            cell = np.int64(near.cells[i])
            if some[i] < 0:
                distances[first + i] = np.float32(np.inf)
                continue
            if cell >= to_cells.shape[0]:
                distances[first + i] = np.float32(np.nan)
                continue
            if np.isnan(to_cells[cell]):
                # Two threads may both find out: they write the same number.
                to_cells[cell] = _squared(query, codes.centroids[cell])
            distances[first + i] = to_cells[cell] + near.sums[i]


@compiled
def measure(
    codes: PqCodes,
    ready: PqQueries,
    asking: NDArray[np.int64],
    slots: NDArray[np.int64],
    distances: NDArray[np.float32],
    rows: NDArray[np.int64],
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
) -> bool:
    """The kernel of `Codec.measure`; slots below 0 are infinitely far. False: some is NaN."""
    sound = True
    near = Fetched(
        np.empty(FETCH, np.uint16),
        np.empty(FETCH, np.float32),
        np.empty((FETCH, codes.codes.shape[1]), np.uint8),
    )
    for i in range(rows.shape[0]):
        row, first, last = rows[i], firsts[rows[i]], lasts[rows[i]]
        some = slots[row, first:last]
        _measure(codes, ready, asking[i], some, distances[row, first:last], near)
        sound = sound and all_numbers(distances[row, first:last])
    return sound
