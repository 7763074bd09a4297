"""What every searcher promises, held against brute force and against one unsharded FAISS index."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.errors import BadInput
from retomaton_dist.search.library import faiss
from retomaton_dist.search.parameters import apply
from tests.search.conftest import DIMENSION, ENTRIES
from tests.search.made import distances_between, make_store, many_ties

QUERIES = many_ties(40, DIMENSION, seed=5).astype(np.float32)


@pytest.fixture(scope="module")
def keys(indexed):
    return rd.open(indexed).rows(range(ENTRIES))


def check_rows(distances, entries, k):
    assert distances.shape == entries.shape == (len(QUERIES), k)
    assert (distances.dtype, entries.dtype) == (np.float32, np.int64)
    assert entries.min() >= 0
    assert entries.max() < ENTRIES
    for near, which in zip(distances, entries, strict=True):
        order = list(zip(near, which, strict=True))
        assert order == sorted(order)
        assert len(set(which)) == k


@pytest.mark.parametrize("k", [1, 7, 300])
def test_a_flat_index_is_exact_and_ordered_by_distance_then_entry(open_search, keys, k):
    distances, entries = open_search("flat").search(QUERIES, k)
    check_rows(distances, entries, k)
    truth = distances_between(QUERIES, keys)
    assert (distances == np.sort(truth, axis=1)[:, :k]).all()
    assert (entries == np.argsort(truth, axis=1, kind="stable")[:, :k]).all()


@pytest.mark.parametrize("name", ["flat", "cells"])
@pytest.mark.parametrize("k", [1, 7, 50])
def test_the_k_nearest_are_the_first_of_more_whatever_is_tied_with_the_kth(open_search, name, k):
    searcher = open_search(name)
    distances, entries = searcher.search(QUERIES, k)
    for most in (k + 1, 4 * k, 300):
        more = searcher.search_more(QUERIES, k, most)
        assert (more[0][:, :k] == distances).all()
        assert (more[1][:, :k] == entries).all()
    alone = [searcher.search(QUERIES[row : row + 1], k)[1] for row in range(5)]
    assert (np.concatenate(alone) == entries[:5]).all()


@pytest.mark.parametrize("name", ["flat", "cells", "rotated"])
@pytest.mark.parametrize("k", [1, 50])
def test_shards_find_what_one_unsharded_index_finds_but_for_ties_with_the_kth(
    open_search, indexed, keys, name, k
):
    searcher = open_search(name)
    distances, entries = searcher.search(QUERIES, k)
    check_rows(distances, entries, k)
    whole = faiss.read_index(str(indexed / "index" / name / "trained.faiss"))
    whole.add(keys.astype(np.float32))
    apply(whole, searcher.parameters)
    expected, which = whole.search(QUERIES, k)
    assert (distances == expected).all()
    for row in range(len(QUERIES)):
        sure = expected[row] < expected[row, -1]
        assert set(which[row][sure]) == set(entries[row][distances[row] < distances[row, -1]])


@pytest.mark.parametrize("name", ["flat", "cells", "rotated"])
def test_asking_for_all_entries_gives_each_once_although_few_cells_are_probed(open_search, name):
    distances, entries = open_search(name).search(QUERIES[:3], ENTRIES)
    assert (np.sort(entries, axis=1) == np.arange(ENTRIES)).all()
    assert np.isfinite(distances).all()


@pytest.mark.parametrize("name", ["flat", "cells", "rotated"])
def test_asking_for_more_changes_nothing_of_the_k_nearest(open_search, name):
    searcher = open_search(name)
    near, which = searcher.search(QUERIES, 20)
    distances, entries = searcher.search_more(QUERIES, 20, 5000)
    assert (distances[:, :20] == near).all()
    for row in range(len(QUERIES)):
        sure = near[row] < near[row, -1]
        assert (which[row][sure] == entries[row, :20][sure]).all()
        known = entries[row] >= 0
        assert known[:20].all()
        assert len(set(entries[row][known])) == known.sum()
        assert (np.diff(distances[row][known]) >= 0).all()
        assert np.isinf(distances[row][~known]).all()


def test_an_entry_found_at_any_distance_has_that_distance(open_search, keys):
    distances, entries = open_search("cells").search(QUERIES, 20)
    truth = distances_between(QUERIES, keys)
    assert (np.take_along_axis(truth, entries, axis=1) == distances).all()


def test_neighbours_that_all_lie_in_one_shard_are_found(tmp_path):
    keys = np.random.default_rng(0).standard_normal((6000, DIMENSION)).astype(np.float16)
    keys[2000:4000] *= np.float16(0.01)
    path = make_store(tmp_path / "apart.store", keys, [100] * 60)
    parameters = {"parameters": "nprobe=16", "recall_queries": 8, "progress": "none"}
    rd.index(path, factory="IVF16,Flat", shards=3, workers=0, sample=1000, **parameters)
    queries = keys[2000:2040].astype(np.float32)
    expected = np.sort(distances_between(queries, keys), axis=1)[:, :600]
    with rd.open(path).searcher() as searcher:
        # Asked twice at first, and for more at once from then on.
        for _ in range(12):
            distances, entries = searcher.search(queries, 600)
            np.testing.assert_allclose(distances, expected, rtol=1e-3, atol=1e-6)
            assert entries.min() >= 2000
            assert entries.max() < 4000


def test_no_queries_give_no_rows(open_search):
    distances, entries = open_search("flat").search(np.empty((0, DIMENSION)), 5)
    assert distances.shape == entries.shape == (0, 5)


def test_queries_may_be_float16_or_not_contiguous(open_search):
    searcher = open_search("cells")
    expected = searcher.search(QUERIES, 9)
    for form in (QUERIES.astype(np.float16), np.asfortranarray(QUERIES), QUERIES.tolist()):
        assert all(map(np.array_equal, searcher.search(form, 9), expected))


def test_many_threads_with_different_k_get_what_each_would_get_alone(open_search):
    searcher = open_search("cells")
    asked = [(QUERIES[i : i + 1 + i % 5], 1 + i % 7) for i in range(30)]
    alone = [searcher.search(*call) for call in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda call: searcher.search(*call), asked))
    for one, other in zip(alone, together, strict=True):
        assert all(map(np.array_equal, one, other))


@pytest.mark.parametrize(
    ("queries", "k", "said"),
    [
        (QUERIES[:, :5], 3, "not [n, 8]"),
        (QUERIES[0], 3, "not [n, 8]"),
        (np.where(np.arange(8) == 3, np.nan, QUERIES), 3, "query 0 is NaN"),
        (np.full((2, 8), 1e300), 3, "query 0 is NaN or infinite"),
        (np.full((2, 8), "x"), 3, "numbers"),
        (QUERIES, 0, "choose 1..6500"),
        (QUERIES, ENTRIES + 1, "k = 6501: the index has 6,500 entries"),
    ],
)
def test_bad_queries_and_k_are_refused(open_search, queries, k, said):
    with pytest.raises(BadInput, match=said.replace("[", r"\[").replace("]", r"\]")):
        open_search("flat").search(queries, k)
