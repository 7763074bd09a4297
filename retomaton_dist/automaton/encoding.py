"""Kernels of the codec `pq`: the nearest codeword of every part, and sums for its training.

A row is done by itself and in one order, so that results do not depend on what is done with it.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.measuring_pq import WORDS
from retomaton_dist.compiled import Whole, compiled

# Rows that are compared with a codeword at once.
ROWS = 256


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
def nearest_words(
    residuals: NDArray[np.float32],
    words: NDArray[np.float32],
    norms: NDArray[np.float32],
    codes: NDArray[np.uint8],
) -> None:
    """Fill codes [rows, M] with the nearest codeword of each part of residuals [rows, d].

    `words` are [M, 256, d / M], `norms` their squared lengths [M, 256]. |r|^2 is left out of
    distances. Of equally near codewords the first is taken.
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
def add_by_word(
    residuals: NDArray[np.float32],
    codes: NDArray[np.uint8],
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
) -> None:
    """Add the parts of all rows to the sums [M, 256, d / M] of their codewords, and count them."""
    width = sums.shape[2]
    for row in range(residuals.shape[0]):
        for part in range(sums.shape[0]):
            word = codes[row, part]
            sizes[part, word] += 1
            for i in range(width):
                sums[part, word, i] += residuals[row, part * width + i]
