"""The codec `pq`: training its codebooks on a sample of keys, and encoding keys with them.

A key is a cell's centroid plus a residual; the residual is cut into M parts, each replaced by the
nearest of 256 codewords. Sums are in float64 and blocks are fixed, so that the same keys give the
same bytes.

FAISS's product quantiser errs as little, but on keys of 1,024 numbers it took five times as long to
encode, and its bytes depended on the CPU's instructions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.codec.pq import ITERATIONS, WORDS
from retomaton_dist.compiled import Whole, compiled

BLOCK = 4096
# Rows that are compared with a codeword at once.
ROWS = 256

Floats = NDArray[np.float32]


def train(sample: NDArray[Any], cells: int, code_size: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Train on a sample of keys [rows, d]: centroids [C, d] and codewords [M, d / M, 256]."""
    keys = np.ascontiguousarray(sample, np.float32)
    rows, dimension = torch.from_numpy(keys), keys.shape[1]

    def nearest(centres: Floats) -> NDArray[Any]:
        return _nearest(rows, torch.from_numpy(centres[0])).numpy()[:, None]

    start = keys[_drawn(len(keys), cells, seed)][None]
    centroids = _lloyd(keys, start, nearest)[0]
    residuals = keys - centroids[_nearest(rows, torch.from_numpy(centroids)).numpy()]
    parts = residuals.reshape(len(keys), code_size, dimension // code_size)
    codes = np.empty((len(keys), code_size), np.uint8)

    def nearest_words(words: Floats) -> NDArray[Any]:
        _nearest_words(residuals, words, _norms(words), codes)
        return codes

    start = np.ascontiguousarray(parts[_drawn(len(keys), WORDS, seed)].transpose(1, 0, 2))
    words = _lloyd(residuals, start, nearest_words)
    return centroids, np.ascontiguousarray(words.transpose(0, 2, 1))


def _lloyd(rows: Floats, centres: Floats, nearest: Callable[[Floats], NDArray[Any]]) -> Floats:
    """K-means in each part of rows [rows, M x width], from centres [M, K, width].

    `nearest` gives the number of the nearest centre of each part of each row. Sums are in float64;
    a centre without rows stays where it was.
    """
    for _ in range(ITERATIONS):
        numbers = nearest(centres)
        sums, sizes = np.zeros(centres.shape), np.zeros(centres.shape[:2], np.int64)
        _add_by_number(rows, numbers, sums, sizes)
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled][:, None]
    return centres


def _drawn(rows: int, count: int, seed: int) -> NDArray[np.int64]:
    """Rows to begin with; with fewer than are wanted they repeat, and ties go to one of them."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(rows, generator=generator)
    drawn: NDArray[np.int64] = order.repeat(-(-count // rows))[:count].numpy()
    return drawn


def encode(keys: NDArray[Any], centroids: Floats, codebooks: Floats) -> dict[str, NDArray[Any]]:
    """Encode keys [rows, d]: cell, M bytes, and the bracket |r|^2 + 2<c, r> of each."""
    # Copied: torch takes no maps, which are read-only.
    centres = torch.from_numpy(centroids.copy())
    words = np.ascontiguousarray(codebooks.transpose(0, 2, 1))
    rows, parts, norms = len(keys), np.arange(len(words)), _norms(words)
    cells, brackets = np.empty(rows, np.uint16), np.empty(rows, np.float32)
    codes = np.empty((rows, len(words)), np.uint8)
    for first in range(0, rows, BLOCK):
        block = slice(first, min(first + BLOCK, rows))
        some = torch.from_numpy(np.ascontiguousarray(keys[block], np.float32))
        nearest = _nearest(some, centres)
        chosen = centres[nearest]
        _nearest_words((some - chosen).numpy(), words, norms, codes[block])
        coded = words[parts, codes[block]].reshape(len(some), -1).astype(np.float64)
        cells[block] = nearest.numpy()
        brackets[block] = ((coded + 2.0 * chosen.numpy()) * coded).sum(1)
    return {"cells": cells, "codes": codes, "brackets": brackets}


def _nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """Number of the nearest centre of every row."""
    norms = (centres * centres).sum(1)
    found = torch.empty(len(rows), dtype=torch.int64)
    for first in range(0, len(rows), BLOCK):
        block = slice(first, first + BLOCK)
        found[block] = torch.addmm(norms, rows[block], centres.T, alpha=-2).argmin(1)
    return found


def _norms(words: Floats) -> Floats:
    """Squared lengths of codewords [M, 256, d / M]."""
    norms: Floats = (words * words).sum(axis=2)
    return norms


@compiled
def _nearest_words(
    residuals: NDArray[np.float32],
    words: NDArray[np.float32],
    norms: NDArray[np.float32],
    codes: NDArray[np.uint8],
) -> None:
    """Fill codes [rows, M] with the nearest codeword of each part of residuals [rows, d].

    `words` are [M, 256, d / M], `norms` their squared lengths [M, 256]. |r|^2 is left out of
    distances. Of equally near codewords the first is taken. A row is done by itself, so that its
    codes do not depend on its company.
    """
    parts, _, width = words.shape
    turned = np.zeros((width, ROWS), np.float32)
    offset, best = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32)
    found = np.empty(ROWS, np.int32)
    for first in range(0, residuals.shape[0], ROWS):
        rows = min(ROWS, residuals.shape[0] - first)
        for part in range(parts):
            for row in range(rows):
                for i in range(width):
                    turned[i, row] = residuals[first + row, part * width + i]
            best[:] = np.inf
            found[:] = 0
            for word in range(WORDS):
                _offer(word, norms[part, word], words[part, word], turned, offset, best, found)
            for row in range(rows):
                codes[first + row, part] = found[row]


@compiled
def _offer(
    word: Whole,
    norm: np.float32,
    coordinates: NDArray[np.float32],
    part: NDArray[np.float32],
    offset: NDArray[np.float32],
    best: NDArray[np.float32],
    found: NDArray[np.int32],
) -> None:
    """Take the codeword for the rows that it is nearer to than their best so far.

    `part` is [d / M, ROWS]: a loop over rows without branches, which the compiler vectorises.
    `offset` is room for the distances, less |r|^2.
    """
    offset[:] = norm
    for i in range(part.shape[0]):
        twice = np.float32(2.0) * coordinates[i]
        for row in range(ROWS):
            offset[row] -= twice * part[i, row]
    for row in range(ROWS):
        nearer = offset[row] < best[row]
        best[row] = offset[row] if nearer else best[row]
        found[row] = word if nearer else found[row]


@compiled
def _add_by_number(
    rows: NDArray[np.float32],
    numbers: NDArray[Any],
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
) -> None:
    """Add the parts of all rows to the sums [M, K, width] of their centres, and count them."""
    width = sums.shape[2]
    for row in range(rows.shape[0]):
        for part in range(sums.shape[0]):
            number = numbers[row, part]
            sizes[part, number] += 1
            for i in range(width):
                sums[part, number, i] += rows[row, part * width + i]
