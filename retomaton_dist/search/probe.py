"""Entries that recall is measured with, and their exact neighbours, found in the same pass.

An entry's own document is left out: what follows a text in that very text is not what a search
is for, and would make any index look good.
"""

import contextlib
import ctypes
import importlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.draw import drawn
from retomaton_dist.compiled import compiled
from retomaton_dist.search.merge import Distances, Entries, Found, tidy
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.datastore import Keys
from retomaton_dist.storage.guarded import GuardedReader

MOST_K = 1024
ENTRIES_PER_K = 16
# numpy's own matrix products, where it was built with OpenBLAS as its wheels are.
_BLAS = ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)


@dataclass(frozen=True)
class Probe:
    """Sampled entries, their keys, and the range [first, last) of entries that each leaves out."""

    entries: NDArray[np.int64]
    queries: NDArray[np.float32]
    excluded: NDArray[np.int64]
    k: int


def choose_k(entries: int) -> int:
    """As many neighbours as evaluation asks for, but few beside the number of entries."""
    return max(1, min(MOST_K, entries // ENTRIES_PER_K))


def draw_probe(corpus: Corpus, reader: GuardedReader, count: int, k: int, seed: int) -> Probe:
    """Draw entries; a document that holds more than half of them all is not left out whole.

    Then, or if k entries would not remain, only the drawn entry itself is left out.
    """
    total = reader.shape.entries
    entries = np.sort(drawn(total, count, seed))
    documents = np.searchsorted(corpus.first_entries, entries, side="right") - 1
    first = corpus.first_entries[documents]
    last = first + corpus.lengths[documents]
    whole = total - (last - first) >= max(k, total // 2)
    excluded = np.stack(
        [np.where(whole, first, entries), np.where(whole, last, entries + 1)], axis=1
    )
    queries = reader.rows(entries).astype(np.float32)
    return Probe(entries, queries, excluded, min(k, max(1, total - 1)))


class ExactNearest:
    """The exact nearest entries of a probe among all keys that it is shown: k + 1 of them.

    The one beyond the k-th tells whether the k-th has ties. All are measured from the middle of the
    probe: norms of keys that lie far from 0 would cancel to nothing.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        shape = (len(probe.entries), probe.k + 1)
        self._found = np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)
        # A float16, so that no key is rounded when it is moved.
        middle = probe.queries.astype(np.float64).mean(axis=0)
        self._middle = middle.astype(np.float16).astype(np.float32)
        self._queries = probe.queries - self._middle
        self._norms = np.einsum("ij,ij->i", self._queries, self._queries)

    def show(self, first: int, keys: Keys) -> None:
        """Take in the keys of the entries that begin with `first`."""
        wide = keys.astype(np.float32) - self._middle
        norms = np.einsum("ij,ij->i", wide, wide)
        with blas_threads(1):
            products = self._queries @ wide.T
        distances = self._norms[:, None] + norms[None, :] - 2 * products
        np.maximum(distances, 0, out=distances)
        _keep_nearest(distances, first, self._probe.excluded, *self._found)

    def result(self) -> Found:
        """What was found so far, in order (distance, entry); gaps are (inf, -1)."""
        tidy(*self._found)
        return self._found


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Have numpy multiply with so many threads: how many they are shows in the last bits.

    Actors are limited by their environment, which is too late for the process that --workers 0
    works in. Of a BLAS that is not OpenBLAS nothing is known, and nothing done.
    """
    if not hasattr(_BLAS, "scipy_openblas_set_num_threads64_"):
        yield
        return
    before = _BLAS.scipy_openblas_get_num_threads64_()
    _BLAS.scipy_openblas_set_num_threads64_(count)
    try:
        yield
    finally:
        _BLAS.scipy_openblas_set_num_threads64_(before)


@compiled
def _keep_nearest(
    distances: Distances,
    first: int,
    excluded: NDArray[np.int64],
    nearest: Distances,
    which: Entries,
) -> None:
    """Push every distance onto its row's heap, whose root is the farthest that is kept."""
    rows, columns = distances.shape
    size = nearest.shape[1]
    for row in range(rows):
        heap, entries = nearest[row], which[row]
        for column in range(columns):
            distance, entry = distances[row, column], first + column
            if distance >= heap[0] or excluded[row, 0] <= entry < excluded[row, 1]:
                continue
            place = 0
            while True:
                child = 2 * place + 1
                if child >= size:
                    break
                if child + 1 < size and heap[child + 1] > heap[child]:
                    child += 1
                if heap[child] <= distance:
                    break
                heap[place] = heap[child]
                entries[place] = entries[child]
                place = child
            heap[place] = distance
            entries[place] = entry
