"""Inverted lists in blocks, and many blocks merged into one FAISS file without loading them.

A block is the entries of one unit: how many lie in each cell (uint32), then cell after cell their
codes and their numbers, which is what FAISS's own files end with. So a shard is the trained index
as FAISS writes it, and behind it the blocks' lists, woven together run after run of cells: the
bytes that FAISS would write had all entries been added to one index, with a run of cells in memory
and every block read once, from its beginning to its end. FAISS's on-disk merge leaves a second
file, whose place is written into the first: `read_index` would refuse a store that was moved.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled
from retomaton_dist.errors import DamagedStore
from retomaton_dist.search.library import faiss, ivf_of
from retomaton_dist.storage import files
from retomaton_dist.storage.files import FileDigest

Bytes = NDArray[np.uint8]
Sizes = NDArray[np.int64]
NUMBER_BYTES = 8
RUN_BYTES = 32 << 20
# What FAISS writes for lists that are all empty: four letters twice, three numbers of 8 bytes.
_NO_LISTS = 32


@dataclass(frozen=True)
class CellCodes:
    """Keys as an index stores them: the cell and the code of each."""

    cells: NDArray[np.int64]
    codes: Bytes


def encode(index: Any, keys: NDArray[np.float32]) -> CellCodes:
    """The cells and codes that adding these keys would store."""
    ivf, found = ivf_of(index), index.sa_encode(keys)
    width = found.shape[1] - ivf.code_size
    cells = np.zeros((len(found), NUMBER_BYTES), np.uint8)
    cells[:, :width] = found[:, :width]
    return CellCodes(cells.view("<i8")[:, 0], np.ascontiguousarray(found[:, width:]))


def write_block(path: Path, cells: int, first: int, parts: Sequence[CellCodes]) -> FileDigest:
    """Write the block of the entries that begin with `first`, given in order."""
    cell = np.concatenate([part.cells for part in parts])
    sizes = np.bincount(cell, minlength=cells)
    body = np.empty(sum(part.codes.size for part in parts) + NUMBER_BYTES * len(cell), np.uint8)
    places = np.zeros(cells, np.int64)
    for part in parts:
        numbers = np.arange(first, first + len(part.cells)).astype("<i8")
        _place(part.cells, part.codes, numbers.view(np.uint8).reshape(-1, 8), sizes, places, body)
        first += len(part.cells)
    with files.replacing(path) as file:
        file.write(sizes.astype("<u4"))
        file.write(body)
    return file.result


def merge_blocks(
    path: Path, trained: Any, blocks: Mapping[Path, FileDigest], run_bytes: int = RUN_BYTES
) -> FileDigest:
    """Write the index that holds the entries of all blocks, in their order, as FAISS would.

    Beside the trained index two runs of cells are in memory, of `run_bytes` each, and what a block
    has of one cell. Blocks that are not as they were written are removed and refused.
    """
    ivf = ivf_of(trained)
    cells, code_size = int(ivf.nlist), int(ivf.code_size)
    opened = [_BlockReader(block, cells) for block in blocks]
    totals = np.zeros(cells, np.int64)
    for block in opened:
        totals += block.sizes(0, cells)
    with files.replacing(path) as file:
        file.write(_head(trained, int(totals.sum())))
        file.write(_lengths(totals, code_size))
        for piece in _merged(opened, totals, code_size, run_bytes):
            file.write(piece)
        for block, expected in zip(opened, blocks.values(), strict=True):
            block.check(expected)
    return file.result


def _head(trained: Any, entries: int) -> Bytes:
    """The trained index, said to hold so many entries, up to where its lists begin."""
    ivf = ivf_of(trained)
    trained.ntotal = ivf.ntotal = entries
    whole: Bytes = faiss.serialize_index(trained)
    trained.ntotal = ivf.ntotal = 0
    return whole[:-_NO_LISTS]


def _lengths(totals: Sizes, code_size: int) -> bytes:
    """How FAISS says how long lists are: of all, or of those that are not empty if these are few.

    FAISS: https://github.com/facebookresearch/faiss, `write_InvertedLists` in index_write.cpp.
    """
    held = np.flatnonzero(totals)
    full = len(held) > len(totals) // 2
    numbers = totals if full else np.stack([held, totals[held]], axis=1).ravel()
    sizes = np.array([len(totals), code_size], "<u8").tobytes()
    count = np.array([len(numbers)], "<u8").tobytes()
    return (
        b"ilar" + sizes + (b"full" if full else b"sprs") + count + numbers.astype("<u8").tobytes()
    )


def _merged(
    blocks: "Sequence[_BlockReader]", totals: Sizes, code_size: int, run_bytes: int
) -> Iterator[Bytes | bytes]:
    """The lists of all cells, in pieces of a bounded size."""
    entry_bytes = code_size + NUMBER_BYTES
    for first, last in runs_of_cells(totals * entry_bytes, run_bytes):
        sizes = np.stack([block.sizes(first, last) for block in blocks])
        if last - first == 1:
            yield from _one_cell(blocks, sizes[:, 0], code_size)
            continue
        lengths = sizes.sum(axis=1) * entry_bytes
        read = np.empty(int(lengths.sum()), np.uint8)
        starts = np.cumsum(lengths) - lengths
        for block, start, length in zip(blocks, starts.tolist(), lengths.tolist(), strict=True):
            read[start : start + length] = np.frombuffer(block.read(length), np.uint8)
        woven = np.empty_like(read)
        _weave(sizes, starts, code_size, read, woven)
        yield woven


def _one_cell(blocks: "Sequence[_BlockReader]", sizes: Sizes, code_size: int) -> Iterator[bytes]:
    """One list, which may be longer than what should be in memory: block by block, twice."""
    for width in (code_size, NUMBER_BYTES):
        for block, size in zip(blocks, sizes.tolist(), strict=True):
            yield block.read(size * width)


def runs_of_cells(lengths: Sizes, limit: int) -> Iterator[tuple[int, int]]:
    """Cut cells into runs that are not longer than `limit`, unless it is one cell alone."""
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + limit, "right")))
        yield first, last
        first = last


class _BlockReader:
    """A block that is read from its beginning to its end, a piece at a time, and digested."""

    def __init__(self, path: Path, cells: int) -> None:
        self._path, self._hash = path, hashlib.sha256()
        self._place = 0
        self.read(4 * cells)

    def sizes(self, first: int, last: int) -> Sizes:
        """How many entries lie in the cells first..last-1."""
        found = self._piece(4 * first, 4 * (last - first))
        return np.frombuffer(found, "<u4").astype(np.int64)

    def read(self, length: int) -> bytes:
        """The next bytes."""
        found = self._piece(self._place, length)
        self._hash.update(found)
        self._place += length
        return found

    def check(self, expected: FileDigest) -> None:
        """Refuse a block that was read to its end and is not as it was written."""
        if FileDigest(self._hash.hexdigest(), self._path.stat().st_size) != expected:
            self._refuse()

    def _piece(self, place: int, length: int) -> bytes:
        # Opened each time: a shard may have more blocks than a process may have open files.
        try:
            with self._path.open("rb") as file:
                file.seek(place)
                found = file.read(length)
        except FileNotFoundError:
            found = b""
        if len(found) < length:
            self._refuse()
        return found

    def _refuse(self) -> None:
        self._path.unlink(missing_ok=True)
        raise DamagedStore(
            f"{self._path}: its contents were altered; run the same command again: it is made anew"
        )


@compiled
def _place(
    cells: NDArray[np.int64], codes: Bytes, numbers: Bytes, sizes: Sizes, places: Sizes, body: Bytes
) -> None:
    """Put codes and numbers behind those that their cells have already, `places` of each."""
    width = codes.shape[1]
    starts = np.cumsum(sizes) - sizes
    for row in range(len(cells)):
        cell = cells[row]
        start = starts[cell] * (width + NUMBER_BYTES)
        code = start + places[cell] * width
        number = start + sizes[cell] * width + places[cell] * NUMBER_BYTES
        body[code : code + width] = codes[row]
        body[number : number + NUMBER_BYTES] = numbers[row]
        places[cell] += 1


@compiled
def _weave(sizes: Sizes, starts: Sizes, code_size: int, read: Bytes, woven: Bytes) -> None:
    """Join the lists of several blocks, cell by cell: all codes, then all numbers."""
    blocks, cells = sizes.shape
    reached = starts.copy()
    place = 0
    for cell in range(cells):
        for width in (code_size, NUMBER_BYTES):
            for block in range(blocks):
                length = sizes[block, cell] * width
                woven[place : place + length] = read[reached[block] : reached[block] + length]
                place += length
                reached[block] += length
