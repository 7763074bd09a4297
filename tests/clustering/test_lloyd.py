"""Lloyd's iterations: right, the same for any division of rows, and resumable.

Empty states take half of another, unless its members are all equal.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.in_memory import InMemory
from retomaton_dist.clustering.lloyd import LloydProgress, Stop, lloyd, refill, stopped
from retomaton_dist.clustering.products import Blocking
from tests.clustering.data import DIVISIONS, clouds, divided, grids, squared_distances

MEMORY = 1 << 20
ALWAYS = -1.0


def cluster(parts, states, iterations=5, seed=0, memory=MEMORY, tolerance=ALWAYS):
    shares = InMemory(parts, Blocking(rows=100, states=50))
    start = LloydProgress(first_centroids(shares.rows, shares.take, states, seed))
    done = lloyd(shares, start, Stop(iterations, tolerance), memory)
    return shares, done


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
    _, done = cluster([keys], 12, iterations=4, seed=seed)
    start = first_centroids(500, keys.__getitem__, 12, seed)
    assert all(iteration.empty == 0 for iteration in done.history)
    np.testing.assert_array_equal(done.centroids, the_obvious_way(keys, start, 4))


@settings(max_examples=30)
@given(grids((1, 60), high=1), DIVISIONS, st.integers(1, 70))
def test_dividing_rows_differently_changes_no_bit(keys, cuts, states):
    shares, whole = cluster([keys], states)
    divided_shares, parts = cluster(divided(keys, cuts), states)
    assert same(whole, parts)
    last = shares.assign(whole.centroids, None), divided_shares.assign(whole.centroids, None)
    assert last[0].inertia == last[1].inertia
    np.testing.assert_array_equal(shares.states, divided_shares.states)


def test_the_memory_for_sums_changes_no_bit():
    keys = clouds(2000, 20, 16)
    wide, narrow = (cluster([keys], 40, memory=memory)[1] for memory in (1 << 30, 1000))
    assert same(wide, narrow)


def test_one_or_two_or_three_parts_give_the_same_bits_on_real_shapes():
    keys = clouds(4000, 30, 64)
    results = [cluster(np.array_split(keys, parts), 80)[1] for parts in (1, 2, 3)]
    assert same(results[0], results[1])
    assert same(results[0], results[2])


def test_going_on_from_any_iteration_gives_the_same_bits():
    keys = clouds(1000, 20, 8)
    reports = []
    shares = InMemory([keys], Blocking())
    start = LloydProgress(first_centroids(1000, shares.take, 25, 0))
    done = lloyd(shares, start, Stop(6, ALWAYS), MEMORY, report=reports.append)
    assert len(reports) == 6
    for report in reports:
        again = InMemory(np.split(keys, [300]), Blocking())
        assert same(done, lloyd(again, report, Stop(6, ALWAYS), MEMORY))


def test_inertia_falls_and_fewer_rows_move():
    _, done = cluster([clouds(3000, 40, 16)], 60, iterations=8)
    inertias = [iteration.inertia for iteration in done.history]
    moved = [iteration.moved for iteration in done.history]
    assert inertias == sorted(inertias, reverse=True)
    assert moved[0] == 1
    assert moved[-1] < moved[1] < 1


def test_inertia_is_that_of_the_centroids_before_they_move():
    keys = clouds(500, 5, 8)
    _, done = cluster([keys], 7, iterations=1)
    start = first_centroids(500, keys.__getitem__, 7, 0)
    exact = squared_distances(keys, start).min(axis=1).sum()
    assert done.history[0].inertia == pytest.approx(exact, rel=1e-6)


def test_it_stops_when_nothing_moves_any_more():
    _, done = cluster([clouds(300, 3, 4, width=0.01)], 3, iterations=50)
    assert len(done.history) < 50
    assert done.history[-1].moved == 0


def test_it_stops_when_inertia_hardly_falls():
    keys = clouds(3000, 40, 16)
    _, early = cluster([keys], 60, iterations=50, tolerance=0.01)
    falls = -np.diff(np.log([iteration.inertia for iteration in early.history]))
    assert falls[-1] < 0.0101 < falls[:-1].min() + 0.0002
    assert stopped(early, Stop(50, 0.01))
    assert not stopped(early, Stop(50, 0.0001))


def test_one_state_is_at_the_mean():
    keys = clouds(700, 5, 6)
    _, done = cluster([keys], 1)
    np.testing.assert_array_equal(done.centroids[0], np.float32(keys.astype(float).mean(axis=0)))


def test_as_many_states_as_different_entries_are_the_entries():
    keys = np.unique(clouds(60, 9, 4), axis=0)
    shares, done = cluster([keys], len(keys))
    assert shares.assign(done.centroids, None).inertia == 0
    assert sorted(shares.states) == list(range(len(keys)))


@pytest.mark.parametrize("states", [1, 2, 7, 50])
def test_identical_keys_are_one_state_and_the_others_stay_empty(states):
    keys = np.tile(np.float16([0.5, -2, 0]), (50, 1))
    shares, done = cluster([keys], states, iterations=20)
    assert shares.assign(done.centroids, None).inertia == 0
    assert set(shares.states) == {0}
    assert done.history[-1].empty == states - 1
    assert done.history[-1].refilled == 0
    assert np.isnan(done.centroids[1:]).all()


def test_a_giant_of_equal_keys_leaves_the_other_states_to_the_others():
    keys = clouds(2000, 30, 8)
    keys[:1000] = keys[0]
    shares, _ = cluster([keys], 50, iterations=10)
    sizes = np.bincount(shares.states, minlength=50)
    assert np.count_nonzero(sizes == 0) == 0
    assert np.count_nonzero(sizes >= 1000) == 1


def test_an_empty_state_takes_part_of_another():
    keys = clouds(400, 4, 8)
    centroids = np.full((5, 8), np.nan, np.float32)
    centroids[0] = keys.astype(np.float64).mean(axis=0)
    done = lloyd(InMemory([keys], Blocking()), LloydProgress(centroids), Stop(10, ALWAYS), MEMORY)
    assert (done.history[0].empty, done.history[0].refilled) == (4, 4)
    assert done.history[-1].empty == 0
    assert not np.isnan(done.centroids).any()


def refilled(counts, spreads, offsets=None, dimension=4):
    centroids = np.arange(len(counts) * dimension, dtype=np.float32).reshape(-1, dimension)
    centroids[np.array(counts) == 0] = np.nan
    offsets = np.array([0, len(counts)] if offsets is None else offsets)
    result = refill(centroids, np.array(counts), np.array(spreads), 0.5, offsets)
    return centroids, result


def test_the_state_of_the_largest_spread_is_split_symmetrically():
    before, after = refilled([5, 0, 9], [80, 0, 20])
    assert after.filled == 1
    np.testing.assert_allclose((after.centroids[0] + after.centroids[1]) / 2, before[0])
    assert np.all(after.centroids[0] != after.centroids[1])
    np.testing.assert_array_equal(after.centroids[2], before[2])


def test_members_that_are_all_equal_are_not_split():
    before, after = refilled([1000, 0, 0, 1], [0, 0, 0, 7])
    assert after.filled == 0
    np.testing.assert_array_equal(after.centroids, before)


def test_a_large_state_is_split_more_than_once_before_a_small_one():
    before, after = refilled([8, 0, 0, 8], [1000, 0, 0, 10])
    assert after.filled == 2
    np.testing.assert_array_equal(after.centroids[3], before[3])
    assert len(np.unique(after.centroids, axis=0)) == 4


def test_a_cell_splits_its_own_states_only():
    before, after = refilled([8, 8, 0, 6], [1000, 0, 0, 10], offsets=[0, 2, 4])
    np.testing.assert_array_equal(after.centroids[:2], before[:2])
    np.testing.assert_allclose((after.centroids[2] + after.centroids[3]) / 2, before[3])


def test_a_centroid_at_the_origin_can_be_split():
    result = refill(
        np.array([[0, 0], [np.nan, np.nan]], np.float32),
        np.array([4, 0]),
        np.array([100, 0]),
        1.0,
        np.array([0, 2]),
    )
    assert np.all(result.centroids[0] == -result.centroids[1])
    assert np.all(result.centroids != 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30))
def test_whatever_is_empty_is_refilled_or_left_without_a_centroid(pairs):
    counts = [count for count, _ in pairs]
    spreads = [spread if count else 0 for count, spread in pairs]
    _, after = refilled(counts, spreads)
    absent = np.isnan(after.centroids).any(axis=1)
    assert np.count_nonzero(absent) == counts.count(0) - after.filled
    assert not absent[np.array(counts) > 0].any()
