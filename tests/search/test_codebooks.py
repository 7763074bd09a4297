"""Training in parts: given the same cells, to the bits that FAISS trains as a whole."""

import numpy as np
import pytest

from retomaton_dist.search.codebooks import (
    assemble,
    books_of,
    codec_rows,
    columns_of,
    extremes,
    residuals,
    train_books,
)
from retomaton_dist.search.factory import Division, division_of, trained_how
from retomaton_dist.search.library import faiss

DIMENSION = 16
ROWS = np.random.default_rng(0).standard_normal((3000, DIMENSION)).astype(np.float32)


def train_in_parts(factory, centroids, group=3):
    """Residuals in two parts, or the extremes of each where there are no books; books in groups."""
    empty = faiss.index_factory(DIMENSION, factory)
    parts = np.split(residuals(centroids, ROWS), [1234]) if codec_rows(empty, len(ROWS)) else []
    books, count = [], books_of(empty)
    for first in range(0, count, group):
        last = min(first + group, count)
        columns = np.concatenate(parts)[:, columns_of(empty, first, last)]
        books.append(train_books(empty, first, last, columns))
    return assemble(factory, centroids, parts if books else list(map(extremes, parts)), books)


@pytest.fixture(autouse=True)
def _one_thread():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.mark.parametrize(
    "factory",
    [
        "IVF32,Flat", "IVF32,SQ8", "IVF32,SQ6", "IVF32,SQ4", "IVF32,SQfp16", "IVF32,SQbf16",
        "IVF32,PQ4x6np", "IVF32,PQ8x5", "IVF32_HNSW8,SQ8",
    ],
)  # fmt: skip
def test_parts_make_the_index_that_faiss_trains_as_a_whole(factory):
    whole = faiss.index_factory(DIMENSION, factory)
    whole.train(ROWS)
    made = train_in_parts(factory, whole.quantizer.reconstruct_n(0, 32))
    assert faiss.serialize_index(made).tobytes() == faiss.serialize_index(whole).tobytes()


def test_fewer_centroids_make_fewer_cells_which_take_entries_all_the_same():
    made = train_in_parts("IVF32,SQ8", ROWS[:7])
    copy = faiss.deserialize_index(faiss.serialize_index(made))
    copy.add(ROWS)
    copy.nprobe = 32
    assert (copy.nlist, copy.ntotal) == (7, 3000)
    assert (copy.search(ROWS[:100], 1)[1][:, 0] == np.arange(100)).all()


@pytest.mark.parametrize(
    ("factory", "training", "filling", "how"),
    [
        ("IVF32,SQ8", True, True, "in parts"),
        ("IVF32,Flat", True, True, "in parts"),
        ("IVF32,PQ4", True, True, "in parts"),
        ("IVF32_HNSW8,SQ8", True, True, "in parts"),
        ("OPQ4,IVF32,PQ4", False, True, "whole"),
        ("PCA8,IVF32,SQ8", False, True, "whole"),
        ("IMI2x4,SQ8", False, True, "whole"),
        ("IVF32,PQ4+4", False, False, "whole"),
        ("IVF32,PQ4x4fs", False, False, "whole"),
        ("IVF32,SQ8,RFlat", False, False, "whole"),
        ("PQ4", False, False, "whole"),
        ("Flat", False, False, "not"),
        ("HNSW8", False, False, "not"),
    ],
)
def test_what_can_be_divided_is_read_off_the_index(factory, training, filling, how):
    index = faiss.index_factory(DIMENSION, factory)
    division = Division(training=training, filling=filling)
    assert division_of(index) == division
    assert trained_how(index, division) == how
