"""Recall against exact search, an entry's own document left out: held against brute force."""

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.search.probe import ExactNearest, blas_threads, choose_k, draw_probe
from retomaton_dist.search.recall import Measure
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.store import Store
from tests.search.made import distances_between, make_store, many_ties

K = 15


@pytest.fixture
def store(tmp_path):
    """Keys that all differ; the last document holds more than half of the entries."""
    keys = np.random.default_rng(3).standard_normal((5000, 6))
    lengths = [20] * 100 + [3000]
    return Store.open(make_store(tmp_path / "all.store", keys, lengths))


def exact_of(store, probe):
    exact = ExactNearest(probe)
    for chunk in range(store.datastore().shape.chunks):
        first, last = store.datastore().shape.chunk_range(chunk)
        exact.show(first, store.datastore().keys[first:last])
    return exact.result()


def brute_force(store, probe):
    truth = distances_between(probe.queries, store.datastore().keys)
    for row, (low, high) in enumerate(probe.excluded):
        truth[row, low:high] = np.inf
    return truth


def test_the_own_document_is_left_out_unless_it_is_half_of_everything(store):
    probe = draw_probe(store.corpus(), GuardedReader(store), 200, K, seed=1)
    for entry, (low, high) in zip(probe.entries, probe.excluded, strict=True):
        whole = (entry // 20 * 20, entry // 20 * 20 + 20)
        assert (low, high) == (whole if entry < 2000 else (entry, entry + 1))
    assert len(set(probe.entries)) == 200
    assert (probe.queries == store.datastore().keys[probe.entries]).all()


def test_streaming_finds_the_exact_neighbours_and_one_more(store):
    probe = draw_probe(store.corpus(), GuardedReader(store), 30, K, seed=1)
    distances, entries = exact_of(store, probe)
    truth = brute_force(store, probe)
    assert (entries == np.argsort(truth, axis=1, kind="stable")[:, : K + 1]).all()
    np.testing.assert_allclose(distances, np.sort(truth, axis=1)[:, : K + 1], rtol=1e-4, atol=1e-4)


def test_keys_with_a_large_common_offset_have_their_true_neighbours(tmp_path):
    keys = 8 * np.random.default_rng(4).integers(-100, 100, (2000, 6)) + 10_000
    store = Store.open(make_store(tmp_path / "far.store", keys, [20] * 100))
    probe = draw_probe(store.corpus(), GuardedReader(store), 30, K, seed=1)
    distances, _ = exact_of(store, probe)
    wide = store.datastore().keys.astype(np.float64)
    truth = ((probe.queries[:, None].astype(np.float64) - wide[None]) ** 2).sum(axis=2)
    for row, (low, high) in enumerate(probe.excluded):
        truth[row, low:high] = np.inf
    assert (distances == np.sort(truth, axis=1)[:, : K + 1]).all()


def test_exact_neighbours_have_the_same_bits_however_many_threads_numpy_has(tmp_path):
    keys = np.random.default_rng(5).standard_normal((4096, 32))
    store = Store.open(make_store(tmp_path / "wide.store", keys, [64] * 64))
    probe = draw_probe(store.corpus(), GuardedReader(store), 50, K, seed=1)
    found = []
    for threads in (1, 2, 3):
        with blas_threads(threads):
            found.append(exact_of(store, probe))
    for other in found[1:]:
        assert all(map(np.array_equal, found[0], other))


class Fixed:
    """A searcher that finds what it is told to, however much is asked for."""

    def __init__(self, layout, ranking):
        self.layout, self.ranking = layout, ranking

    def candidates(self, queries, k):
        found = np.full((len(queries), k), -1, np.int64)
        for row, query in enumerate(queries):
            ranked = self.ranking[query.tobytes()][:k]
            found[row, : len(ranked)] = ranked
        return np.zeros_like(found, np.float32), found


class Size:
    def __init__(self, entries):
        self.entries = entries


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_recall_is_the_share_of_exact_neighbours_that_are_found(store, share):
    probe = draw_probe(store.corpus(), GuardedReader(store), 20, K, seed=2)
    truth = brute_force(store, probe)
    ranking = {}
    for row, query in enumerate(probe.queries):
        own = np.arange(*probe.excluded[row])
        near = np.argsort(truth[row])
        kept = int(share * K)
        ranking[query.tobytes()] = [*own, *near[:kept], *near[1000 : 1000 + K - kept]]
    measure = Measure(probe, exact_of(store, probe), store.datastore().keys)
    assert measure.recall(Fixed(Size(5000), ranking)) == pytest.approx(share)


def test_entries_tied_with_the_kth_count_as_found(tmp_path):
    keys = many_ties(3000, 2)
    store = Store.open(make_store(tmp_path / "ties.store", keys, [30] * 100))
    probe = draw_probe(store.corpus(), GuardedReader(store), 20, K, seed=2)
    truth = brute_force(store, probe)
    backwards = {
        query.tobytes(): np.lexsort((-np.arange(3000), truth[row]))
        for row, query in enumerate(probe.queries)
    }
    exact = exact_of(store, probe)
    found = Measure(probe, exact, store.datastore().keys).recall(Fixed(Size(3000), backwards))
    assert found == 1
    assert not np.isin(backwards[probe.queries[0].tobytes()][:K], exact[1][0]).all()


def test_k_is_small_beside_the_number_of_entries():
    assert [choose_k(entries) for entries in (1, 160, 10**9)] == [1, 10, 1024]


def test_a_built_index_reports_the_recall_that_its_searcher_has(indexed):
    store = rd.open(indexed)
    for name, least in (("flat", 1.0), ("rotated", 0.4)):
        opened = IndexFiles.open(store.store, name)
        report = opened.layout.recall
        assert report["recall"] >= least
        assert report["reached"] == (report["recall"] >= report["target"])
        probe = draw_probe(store.store.corpus(), GuardedReader(store.store), 32, 32, seed=1)
        measure = Measure(probe, exact_of(store.store, probe), store.store.datastore().keys)
        with store.searcher(name) as searcher:
            assert measure.recall(searcher) == pytest.approx(report["recall"], abs=1e-5)
