"""Small random codes, the keys that they stand for, and what distances should be."""

import numpy as np

from retomaton_dist.codec.fp16 import fp16_codec
from retomaton_dist.codec.pq import PqCodes, pq_codec

DIMENSION = 6
CODE_SIZE = 3
CELLS = 4


def random_codec(random, entries, codec, order=slice(None)):
    """A codec of keys on a coarse grid, so that distances tie; and these keys.

    Slot i has the key of entry order[i].
    """
    if codec == "fp16":
        keys = random.integers(-2, 3, (entries, DIMENSION)).astype(np.float16)
        return fp16_codec(keys[order]), keys
    width = DIMENSION // CODE_SIZE
    centroids = random.integers(-2, 3, (CELLS, DIMENSION)).astype(np.float32)
    codebooks = random.integers(-1, 2, (CODE_SIZE, width, 256)).astype(np.float32)
    cells = random.integers(0, CELLS, entries).astype(np.uint16)
    codes = random.integers(0, 256, (entries, CODE_SIZE)).astype(np.uint8)
    parts = [codebooks[part][:, codes[:, part]].T for part in range(CODE_SIZE)]
    residuals = np.concatenate(parts, axis=1)
    brackets = (residuals**2).sum(axis=1) + 2 * (centroids[cells] * residuals).sum(axis=1)
    by_slot = (cells[order], codes[order], brackets[order].astype(np.float32))
    return pq_codec(PqCodes(centroids, codebooks, *by_slot)), centroids[cells] + residuals


def exact_distances(query, keys):
    """Squared Euclidean distances in float64."""
    difference = np.asarray(keys, np.float64) - np.asarray(query, np.float64)
    return (difference**2).sum(axis=1)
