"""Training an index in parts: given its cells, the codec of what keys are beside their centroids.

A scalar codec needs the extremes of the residuals alone, which those of parts of a sample have as
well. Each book of a product codec depends on its own columns of the residuals alone, so that
groups of books are trained apart, to the very bits that FAISS has for all of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.search.factory import make_index
from retomaton_dist.search.library import faiss

Rows = NDArray[np.float32]


def codec_rows(index: Any, sample: int) -> int:
    """How many residuals the codec is trained on, as FAISS has it; 0 if there is none to train."""
    ivf = faiss.downcast_index(index)
    if isinstance(ivf, faiss.IndexIVFPQ) or _has_ranges(ivf):
        return min(sample, int(ivf.train_encoder_num_vectors()))
    return 0


def books_of(index: Any) -> int:
    """How many books there are to train; 0 if the codec is no product codec."""
    ivf = faiss.downcast_index(index)
    return int(ivf.pq.M) if isinstance(ivf, faiss.IndexIVFPQ) else 0


def residuals(centroids: Rows, keys: Rows) -> Rows:
    """What keys are beside the centroids nearest to them."""
    cells = faiss.IndexFlatL2(centroids.shape[1])
    cells.add(centroids)
    nearest = cells.search(keys, 1)[1][:, 0]
    found: Rows = keys - centroids[nearest]
    return found


def extremes(rows: Rows) -> Rows:
    """The least and the greatest number of every column: all that a scalar codec asks of rows."""
    return np.stack([rows.min(axis=0), rows.max(axis=0)])


def train_books(index: Any, first: int, last: int, columns: Rows) -> Rows:
    """Train the books first..last-1 of an index on their columns of the residuals."""
    ivf = faiss.downcast_index(index)
    count, width = last - first, int(ivf.pq.dsub)
    books = faiss.ProductQuantizer(count * width, count, int(ivf.pq.nbits))
    books.cp = ivf.pq.cp
    rows = np.ascontiguousarray(columns)
    books.train(rows)
    if ivf.do_polysemous_training:
        faiss.PolysemousTraining().optimize_pq_for_hamming(books, len(rows), faiss.swig_ptr(rows))
    trained: Rows = faiss.vector_to_array(books.centroids)
    return trained


def columns_of(index: Any, first: int, last: int) -> slice:
    """The columns of residuals that the books first..last-1 are trained on."""
    width = int(faiss.downcast_index(index).pq.dsub)
    return slice(first * width, last * width)


def assemble(factory: str, centroids: Rows, parts: Sequence[Rows], books: Sequence[Rows]) -> Any:
    """The trained, empty index of a factory: its cells, and its codec from extremes or books.

    There may be fewer centroids than the factory asks for: then there are fewer cells.
    """
    index = make_index(factory, centroids.shape[1], len(centroids))
    ivf = faiss.downcast_index(index)
    if len(centroids) < ivf.nlist:
        _with_fewer_cells(ivf, len(centroids))
    ivf.quantizer.add(np.ascontiguousarray(centroids))
    if books:
        faiss.copy_array_to_vector(np.concatenate(books), ivf.pq.centroids)
    elif parts:
        ivf.sq.train(np.concatenate(parts))
    ivf.is_trained = index.is_trained = True
    return index


def _with_fewer_cells(ivf: Any, cells: int) -> None:
    lists = faiss.ArrayInvertedLists(cells, ivf.code_size)
    ivf.nlist = cells
    ivf.replace_invlists(lists, True)
    lists.this.disown()


def _has_ranges(ivf: Any) -> bool:
    """Whether a scalar codec learns ranges; those of float16 and the like do not."""
    if not isinstance(ivf, faiss.IndexIVFScalarQuantizer):
        return False
    tried = faiss.ScalarQuantizer(ivf.d, ivf.sq.qtype)
    tried.train(np.zeros((2, ivf.d), np.float32))
    return bool(tried.trained.size())
