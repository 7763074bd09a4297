"""The codec `pq`: training its codebooks on a sample of keys, and encoding keys with them.

A key is a cell's centroid plus a residual; the residual is cut into M parts, each replaced by the
nearest of 256 codewords. Sums are in float64 and blocks are fixed, so that the same keys give the
same bytes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.automaton.measuring_pq import WORDS
from retomaton_dist.errors import BadInput

MOST_CODE_BYTES = 64
MOST_CELLS = 1024
ENTRIES_PER_CELL = 256
ITERATIONS = 12
SAMPLE = 65_536
BLOCK = 4096

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Codebooks:
    """What training yields: centroids [C, d] and codewords [M, d / M, 256]."""

    centroids: Floats
    codebooks: Floats

    @property
    def code_size(self) -> int:
        """M."""
        return len(self.codebooks)


@dataclass(frozen=True)
class Encoded:
    """Codes of some keys: cell, M bytes, and the bracket |r|^2 + 2<c, r> of each."""

    cells: NDArray[np.uint16]
    codes: NDArray[np.uint8]
    brackets: Floats


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


def train(sample: NDArray[Any], cells: int, code_size: int, seed: int = 0) -> Codebooks:
    """Train cells and codewords on a sample of keys [rows, d]."""
    keys = torch.from_numpy(np.ascontiguousarray(sample, np.float32))
    centroids = _centres(keys[None], cells, seed)[0]
    residuals = keys - centroids[_nearest(keys[None], centroids[None])[0]]
    width = keys.shape[1] // code_size
    parts = residuals.reshape(-1, code_size, width).transpose(0, 1).contiguous()
    words = _centres(parts, WORDS, seed)
    return Codebooks(centroids.numpy(), words.transpose(1, 2).contiguous().numpy())


def encode(keys: NDArray[Any], books: Codebooks) -> Encoded:
    """Encode keys [rows, d]."""
    # Copied: torch takes no maps, which are read-only.
    centroids = torch.from_numpy(books.centroids.copy())
    words = torch.from_numpy(books.codebooks.copy()).transpose(1, 2).contiguous()
    rows, (parts, width, _) = len(keys), books.codebooks.shape
    made = Encoded(
        np.empty(rows, np.uint16), np.empty((rows, parts), np.uint8), np.empty(rows, np.float32)
    )
    for first in range(0, rows, BLOCK):
        block = slice(first, min(first + BLOCK, rows))
        some = torch.from_numpy(np.ascontiguousarray(keys[block], np.float32))
        cells = _nearest(some[None], centroids[None])[0]
        residuals = some - centroids[cells]
        cut = residuals.reshape(-1, parts, width).transpose(0, 1).contiguous()
        codes = _nearest(cut, words)
        made.cells[block] = cells.numpy()
        made.codes[block] = codes.T.numpy()
        made.brackets[block] = _brackets(centroids[cells], words, codes)
    return made


def decode(encoded: Encoded, books: Codebooks) -> Floats:
    """What encoded keys stand for, [rows, d]."""
    words = torch.from_numpy(books.codebooks.copy()).transpose(1, 2)
    codes = torch.from_numpy(encoded.codes.T.astype(np.int64))
    residuals = _residuals(words, codes).numpy()
    found: Floats = books.centroids[encoded.cells] + residuals
    return found


def _residuals(words: Tensor, codes: Tensor) -> Tensor:
    picked = torch.stack([book[code] for book, code in zip(words, codes, strict=True)], 1)
    return picked.reshape(len(picked), -1)


def _brackets(centroids: Tensor, words: Tensor, codes: Tensor) -> Floats:
    residuals = _residuals(words, codes).double()
    brackets: Floats = ((residuals + 2 * centroids.double()) * residuals).sum(1).float().numpy()
    return brackets


def _nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """Number of the nearest centre of every row, per group: [groups, rows]."""
    norms = (centres * centres).sum(2)
    found = torch.empty(rows.shape[:2], dtype=torch.int64)
    for first in range(0, rows.shape[1], BLOCK):
        block = slice(first, first + BLOCK)
        products = torch.baddbmm(norms[:, None], rows[:, block], centres.transpose(1, 2), alpha=-2)
        found[:, block] = products.argmin(2)
    return found


def _centres(rows: Tensor, count: int, seed: int) -> Tensor:
    """Lloyd's k-means in every group at once; a centre without rows stays where it was."""
    groups, total, width = rows.shape
    generator = torch.Generator().manual_seed(seed)
    # With fewer rows than centres, centres repeat: ties go to one of them.
    order = torch.randperm(total, generator=generator).repeat(-(-count // total))[:count]
    centres = rows[:, order].clone()
    offsets = torch.arange(groups)[:, None] * count
    for _ in range(ITERATIONS):
        places = (_nearest(rows, centres) + offsets).reshape(-1)
        sums = torch.zeros(groups * count, width, dtype=torch.float64)
        sums.index_add_(0, places, rows.reshape(-1, width).double())
        sizes = torch.bincount(places, minlength=groups * count)
        filled = sizes > 0
        means = sums[filled] / sizes[filled, None]
        centres.view(-1, width)[filled] = means.float()
    return centres
