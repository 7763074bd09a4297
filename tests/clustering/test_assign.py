"""Every row gets the nearest centroid, whatever is multiplied with what at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.assign import find_among_all
from retomaton_dist.clustering.products import (
    Blocking,
    begin,
    contend,
    fold_here,
    fold_lowest,
    load_block,
    load_slabs,
    rooms_on,
    settled,
)
from retomaton_dist.errors import BadInput
from tests.clustering.data import clouds, grids, squared_distances

BLOCKINGS = st.builds(Blocking, rows=st.integers(1, 50), states=st.integers(1, 50))


@st.composite
def rows_and_centroids(draw):
    rows = draw(grids())
    return rows, draw(grids(dimension=rows.shape[1])).astype(np.float32)


@given(rows_and_centroids(), BLOCKINGS)
def test_the_nearest_is_found_and_ties_go_to_the_lower_state(pair, blocking):
    rows, centroids = pair
    nearest = find_among_all(centroids, blocking)(rows)
    exact = squared_distances(rows, centroids)
    assert nearest.states.dtype == np.int32
    assert nearest.distances.dtype == np.float32
    np.testing.assert_array_equal(nearest.states, exact.argmin(axis=1))
    np.testing.assert_array_equal(nearest.distances, exact.min(axis=1))


@given(rows_and_centroids())
def test_float32_rows_are_found_as_float16_rows_are(pair):
    rows, centroids = pair
    find = find_among_all(centroids, Blocking())
    np.testing.assert_array_equal(find(rows).states, find(rows.astype(np.float32)).states)


def nearly_tied(seed):
    """Centroids in pairs that differ by less than a float32 product can tell."""
    rows = clouds(600, 5, 64, seed)
    centroids = np.repeat(rows[:150].astype(np.float32), 2, axis=0)
    centroids[1::2] *= 1 + np.random.default_rng(seed).uniform(-3e-7, 3e-7, (150, 64))
    return rows, centroids.astype(np.float32)


def crowded(seed):
    """Centroids in crowds of 60 that float32 products cannot tell apart, too many to remember."""
    rows = clouds(300, 5, 64, seed)
    centroids = np.repeat(rows[:3].astype(np.float32), 60, axis=0)
    centroids *= 1 + np.random.default_rng(seed).uniform(-3e-7, 3e-7, centroids.shape)
    return rows, centroids.astype(np.float32)


@pytest.mark.parametrize("make", [nearly_tied, crowded])
@pytest.mark.parametrize("seed", range(3))
def test_near_ties_are_decided_in_float64(make, seed):
    rows, centroids = make(seed)
    nearest = find_among_all(centroids, Blocking())(rows)
    exact = squared_distances(rows, centroids)
    found = exact[np.arange(len(rows)), nearest.states]
    assert np.all(found <= exact.min(axis=1) * (1 + 1e-14))
    product = (centroids**2).sum(axis=1) - 2 * rows.astype(np.float32) @ centroids.T
    assert np.any(product.argmin(axis=1) != nearest.states), "these rows tell nothing"


@pytest.mark.parametrize("blocking", [Blocking(7, 7, 5), Blocking(64, 64, 100), Blocking(600)])
def test_blocks_and_threads_never_change_a_result(blocking):
    rows, centroids = nearly_tied(0)
    whole = find_among_all(centroids, Blocking())(rows)
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if threads == 1 else 1)
    find = find_among_all(centroids, blocking)
    torch.set_num_threads(threads)
    parts = [find(part) for part in np.split(rows, [1, 200, 201])]
    assert np.array_equal(whole.states, np.concatenate([part.states for part in parts]))
    assert np.array_equal(whole.distances, np.concatenate([part.distances for part in parts]))


@given(rows_and_centroids(), st.integers(1, 5))
def test_several_nearest_come_in_order(pair, count):
    rows, centroids = pair
    found, distances = found_by(fold_here, rows, centroids, count)
    exact = squared_distances(rows, centroids)
    order = np.argsort(exact, axis=1, kind="stable")[:, :count]
    known = order.shape[1]
    np.testing.assert_array_equal(found[:, :known], order)
    np.testing.assert_array_equal(distances[:, :known], np.take_along_axis(exact, order, 1))
    assert np.all(found[:, known:] == -1)


@given(rows_and_centroids(), st.integers(1, 5))
def test_what_a_device_selects_comes_to_the_same(pair, count):
    rows, centroids = pair
    here = found_by(fold_here, rows, centroids, count)
    there = found_by(fold_lowest, rows, centroids, count)
    np.testing.assert_array_equal(here[0], there[0])
    np.testing.assert_array_equal(here[1], there[1])


@pytest.mark.parametrize("make", [nearly_tied, crowded])
def test_what_a_device_selects_comes_to_the_same_among_near_ties(make):
    rows, centroids = make(1)
    here = found_by(fold_here, rows, centroids, 3)
    there = found_by(fold_lowest, rows, centroids, 3, slab_states=1024)
    assert np.array_equal(here[0], there[0])


def found_by(fold, rows, centroids, count, slab_states=16):
    contest = replace(begin(load_block(rows, "cpu"), count, rooms_on("cpu")), fold=fold)
    for slab in load_slabs(centroids, 0, len(centroids), Blocking(states=slab_states)):
        contend(contest, slab, np.arange(len(rows)))
    return settled(contest, centroids)


def test_only_the_given_rows_of_a_block_contend():
    rows = clouds(50, 4, 8)
    centroids = rows[:20].astype(np.float32)
    contest = begin(load_block(rows, "cpu"), 1, rooms_on("cpu"))
    near, far = np.arange(0, 50, 3), np.setdiff1d(np.arange(50), np.arange(0, 50, 3))
    first, second = load_slabs(centroids, 0, 20, Blocking(states=10))
    contend(contest, first, near)
    contend(contest, second, far)
    found = settled(contest, centroids)[0][:, 0]
    exact = squared_distances(rows, centroids)
    np.testing.assert_array_equal(found[near], exact[near, :10].argmin(axis=1))
    np.testing.assert_array_equal(found[far], exact[far, 10:].argmin(axis=1) + 10)


def test_of_a_hundred_equal_centroids_the_first_is_found():
    rows = clouds(300, 4, 8)
    centroids = np.repeat(rows[:3].astype(np.float32), 100, axis=0)
    found = find_among_all(centroids, Blocking())(rows).states
    np.testing.assert_array_equal(found, squared_distances(rows, centroids).argmin(axis=1))
    assert set(found) <= {0, 100, 200}


def test_states_without_a_centroid_are_never_found():
    rows = clouds(300, 4, 8)
    centroids = rows[:40].astype(np.float32)
    centroids[::2] = np.nan
    found = find_among_all(centroids, Blocking(states=8))(rows).states
    left = squared_distances(rows, centroids[1::2])
    np.testing.assert_array_equal(found, 1 + 2 * left.argmin(axis=1))


def test_a_centroid_far_away_does_not_blur_the_others():
    rows = clouds(300, 4, 64)
    centroids = rows[:40].astype(np.float32)
    centroids[7] = 30000
    found = find_among_all(centroids, Blocking())(rows).states
    np.testing.assert_array_equal(found, squared_distances(rows, centroids).argmin(axis=1))


def test_a_read_only_map_of_keys_is_read_without_a_warning(tmp_path, recwarn):
    np.save(tmp_path / "keys.npy", clouds(100, 4, 8))
    rows = np.load(tmp_path / "keys.npy", mmap_mode="r")
    find_among_all(np.array(rows[:5], np.float32), Blocking())(rows)
    assert not recwarn.list


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_key_that_is_not_finite_is_refused(wrong):
    rows = clouds(100, 4, 8)
    rows[31, 2] = wrong
    find = find_among_all(clouds(5, 4, 8).astype(np.float32), Blocking())
    with pytest.raises(BadInput, match=r"row 31 .* NaN or infinity"):
        find(rows)


def test_without_any_centroid_there_is_nothing_to_find():
    with pytest.raises(BadInput, match="no state has a centroid"):
        find_among_all(np.full((3, 8), np.nan, np.float32), Blocking())
