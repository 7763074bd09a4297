"""Empty states take half of another, unless its members are all equal."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.update import refill


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


def test_a_range_of_cells_is_refilled_as_it_is_among_all():
    counts, spreads = np.array([8, 0, 0, 8, 0, 3]), np.array([99, 0, 0, 1000, 0, 5])
    centroids = np.arange(24, dtype=np.float32).reshape(6, 4)
    centroids[counts == 0] = np.nan
    offsets = np.array([0, 2, 4, 6])
    whole = refill(centroids, counts, spreads, 0.5, offsets)
    parts = [
        refill(centroids[a:b], counts[a:b], spreads[a:b], 0.5, offsets[i:j], base=a)
        for a, b, i, j in ((0, 2, 0, 2), (2, 6, 1, 4))
    ]
    joined = np.concatenate([part.centroids for part in parts])
    np.testing.assert_array_equal(joined, whole.centroids)
    assert sum(part.filled for part in parts) == whole.filled == 3
