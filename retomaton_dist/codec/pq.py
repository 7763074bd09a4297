"""Distances by the codec `pq`, without keys: |q - c - r|^2 = |q - c|^2 - 2<q, r> + bracket."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.codec.numbers import all_numbers
from retomaton_dist.compiled import Whole, compiled, compiled_sums

WORDS = 256
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
