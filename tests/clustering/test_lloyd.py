"""Lloyd's iterations in memory: right, and the same however rows are blocked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.assign import find_among_all
from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.lloyd import Stop, cluster_rows, lloyd, stopped
from retomaton_dist.clustering.products import Blocking
from tests.clustering.data import clouds, grids, squared_distances

ALWAYS = -1.0
SMALL = Blocking(rows=100, states=50)


def cluster(keys, states, iterations=5, seed=0, tolerance=ALWAYS, blocking=SMALL):
    start = first_centroids(len(keys), keys.__getitem__, states, seed)
    return lloyd(keys, start, Stop(iterations, tolerance), blocking)


def assigned(keys, done):
    return find_among_all(done.centroids, SMALL)(keys)


def same(left, right):
    return left.history == right.history and np.array_equal(
        left.centroids, right.centroids, equal_nan=True
    )


def the_obvious_way(keys, centroids, iterations):
    centroids = centroids.astype(np.float64)
    for _ in range(iterations):
        states = squared_distances(keys, centroids).argmin(axis=1)
        means = [
            keys[states == state].astype(np.float64).mean(axis=0) for state in np.unique(states)
        ]
        centroids[np.unique(states)] = np.float32(means)
    return centroids


@pytest.mark.parametrize("seed", range(3))
def test_it_is_lloyds_algorithm(seed):
    keys = clouds(500, 12, 6, seed)
    done = cluster(keys, 12, iterations=4, seed=seed)
    start = first_centroids(500, keys.__getitem__, 12, seed)
    assert all(iteration.empty == 0 for iteration in done.history)
    np.testing.assert_array_equal(done.centroids, the_obvious_way(keys, start, 4))


@given(grids((1, 60), high=1), st.integers(1, 70), st.integers(1, 60), st.integers(1, 20))
def test_blocking_rows_differently_changes_no_bit(keys, states, rows, slab):
    whole = cluster(keys, states)
    assert same(whole, cluster(keys, states, blocking=Blocking(rows=rows, states=slab)))


def test_inertia_falls_and_fewer_rows_move():
    done = cluster(clouds(3000, 40, 16), 60, iterations=8)
    inertias = [iteration.inertia for iteration in done.history]
    moved = [iteration.moved for iteration in done.history]
    assert inertias == sorted(inertias, reverse=True)
    assert moved[0] == 1
    assert moved[-1] < moved[1] < 1


def test_inertia_is_that_of_the_centroids_before_they_move():
    keys = clouds(500, 5, 8)
    done = cluster(keys, 7, iterations=1)
    start = first_centroids(500, keys.__getitem__, 7, 0)
    exact = squared_distances(keys, start).min(axis=1).sum()
    assert done.history[0].inertia == pytest.approx(exact, rel=1e-6)


def test_it_stops_when_nothing_moves_any_more():
    done = cluster(clouds(300, 3, 4, width=0.01), 3, iterations=50)
    assert len(done.history) < 50
    assert done.history[-1].moved == 0


def test_it_stops_when_inertia_hardly_falls():
    keys = clouds(3000, 40, 16)
    early = cluster(keys, 60, iterations=50, tolerance=0.01)
    falls = -np.diff(np.log([iteration.inertia for iteration in early.history]))
    assert falls[-1] < 0.0101 < falls[:-1].min() + 0.0002
    assert stopped(early.history, Stop(50, 0.01))
    assert not stopped(early.history, Stop(50, 0.0001))


def test_one_state_is_at_the_mean():
    keys = clouds(700, 5, 6)
    done = cluster(keys, 1)
    np.testing.assert_array_equal(done.centroids[0], np.float32(keys.astype(float).mean(axis=0)))


def test_as_many_states_as_different_entries_are_the_entries():
    keys = np.unique(clouds(60, 9, 4), axis=0)
    found = assigned(keys, cluster(keys, len(keys)))
    assert not found.distances.any()
    assert sorted(found.states) == list(range(len(keys)))


@pytest.mark.parametrize("states", [1, 2, 7, 50])
def test_identical_keys_are_one_state_and_the_others_stay_empty(states):
    keys = np.tile(np.float16([0.5, -2, 0]), (50, 1))
    done = cluster(keys, states, iterations=20)
    found = assigned(keys, done)
    assert not found.distances.any()
    assert set(found.states) == {0}
    assert done.history[-1].empty == states - 1
    assert done.history[-1].refilled == 0
    assert np.isnan(done.centroids[1:]).all()


def test_a_giant_of_equal_keys_leaves_the_other_states_to_the_others():
    keys = clouds(2000, 30, 8)
    keys[:1000] = keys[0]
    sizes = np.bincount(assigned(keys, cluster(keys, 50, iterations=10)).states, minlength=50)
    assert np.count_nonzero(sizes == 0) == 0
    assert np.count_nonzero(sizes >= 1000) == 1


def test_an_empty_state_takes_part_of_another():
    keys = clouds(400, 4, 8)
    centroids = np.full((5, 8), np.nan, np.float32)
    centroids[0] = keys.astype(np.float64).mean(axis=0)
    done = lloyd(keys, centroids, Stop(10, ALWAYS), Blocking())
    assert (done.history[0].empty, done.history[0].refilled) == (4, 4)
    assert done.history[-1].empty == 0
    assert not np.isnan(done.centroids).any()


def test_rows_are_clustered_from_keys_drawn_among_them():
    keys = clouds(300, 9, 6)
    start = first_centroids(300, keys.__getitem__, 7, 3)
    expected = lloyd(keys, start, Stop(4), Blocking()).centroids
    np.testing.assert_array_equal(cluster_rows(keys, 7, 4, 3, Blocking()), expected)
