"""What is drawn follows from the seed, and centroids begin at keys that differ."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering import draw as draw_module
from retomaton_dist.clustering.draw import digests, draw, drawn, first_centroids, priorities
from tests.clustering.data import clouds, grids

SEEDS = st.integers(0, 2**40)


@given(st.integers(1, 3000), st.integers(0, 4000), SEEDS)
def test_a_draw_has_no_repetition_and_begins_like_a_shorter_one(rows, count, seed):
    entries = drawn(rows, count, seed)
    assert len(entries) == len(set(entries.tolist())) == min(rows, count)
    assert all(0 <= entry < rows for entry in entries)
    np.testing.assert_array_equal(drawn(rows, count // 2, seed), entries[: count // 2])


def test_every_entry_is_drawn_equally_often():
    hits = np.zeros(50)
    for seed in range(2000):
        hits[drawn(50, 10, seed)] += 1
    assert abs(hits / 400 - 1).max() < 0.25


def test_another_seed_draws_other_entries():
    assert set(drawn(10**6, 100, 1)) != set(drawn(10**6, 100, 2))


def test_no_two_numbers_share_a_priority():
    assert len(np.unique(priorities(np.arange(10**5), 3))) == 10**5


@given(grids(high=1))
def test_digests_are_equal_where_keys_are(keys):
    signed = np.where(keys == 0, np.float16(-0.0), keys)
    same = (keys[:, None] == keys[None]).all(axis=2)
    np.testing.assert_array_equal(digests(keys)[:, None] == digests(signed)[None], same)


@given(grids(high=1), st.integers(1, 50), SEEDS)
def test_first_centroids_are_keys_that_differ_while_there_are_any(keys, states, seed):
    start = first_centroids(len(keys), keys.__getitem__, states, seed)
    found = start[~np.isnan(start).any(axis=1)]
    distinct = np.unique(keys + np.float16(0), axis=0)
    assert start.shape == (states, keys.shape[1])
    assert len(np.unique(found, axis=0)) == len(found) <= min(states, len(distinct))
    assert {*map(tuple, found)} <= {*map(tuple, distinct.astype(np.float32))}
    if states >= len(keys):
        assert len(found) == len(distinct)


def test_massive_ties_do_not_take_the_place_of_other_keys():
    keys = clouds(2000, 50, 8)
    keys[::2] = keys[0]
    start = first_centroids(len(keys), keys.__getitem__, 300, 0)
    assert not np.isnan(start).any()
    assert len(np.unique(start, axis=0)) == 300


@pytest.mark.parametrize("seed", [0, 1])
def test_the_start_follows_from_the_seed(seed):
    keys = clouds(500, 5, 4)
    starts = [first_centroids(500, keys.__getitem__, 20, chosen) for chosen in (seed, seed, 7)]
    assert np.array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.integers(0, 100),
    st.integers(0, 5000),
    st.integers(100, 6000),
)
def test_a_draw_without_a_list_has_the_same_entries(rows, count, seed, middle, at_once):
    count, middle = min(rows, count), min(rows, middle)
    with mock.patch.object(draw_module, "_ENTRIES_AT_ONCE", at_once):
        found = draw(rows, count, seed)
        parts = [found.among(0, middle), found.among(middle, rows)]
    np.testing.assert_array_equal(np.concatenate(parts), np.sort(drawn(rows, count, seed)))
