"""Contests for rows: the nearest of the targets that contended, whoever folds the products."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.products import (
    Blocking,
    ProductScratch,
    begin,
    contend,
    fold_here,
    fold_lowest,
    load_block,
    load_slabs,
    settled,
)
from retomaton_dist.errors import BadInput
from tests.clustering.data import (
    clouds,
    crowded,
    crowds,
    grids,
    nearly_tied,
    rows_and_centroids,
    squared_distances,
)


def found_by(fold, rows, centroids, count, slab_states=16):
    contest = begun(rows, count, fold)
    contend(contest, load_slabs(centroids, 0, len(centroids), Blocking(states=slab_states)))
    return settled(contest, centroids)


def begun(rows, count, fold=fold_here):
    return replace(begin(load_block(rows, "cpu"), count, ProductScratch("cpu")), fold=fold)


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


@pytest.mark.parametrize("fold", [fold_here, fold_lowest])
@pytest.mark.parametrize(
    "make", [lambda: (clouds(50, 4, 8), clouds(20, 4, 8)), lambda: crowds(50, 200)]
)
def test_a_row_finds_only_what_contended_for_it(make, fold):
    rows, targets = make()
    targets, half = targets.astype(np.float32), len(targets) // 2
    contest = begun(rows, 1, fold)
    some, others = np.arange(0, 50, 3), np.setdiff1d(np.arange(50), np.arange(0, 50, 3))
    contend(contest, load_slabs(targets, 0, half, Blocking(states=64)), some)
    contend(contest, load_slabs(targets, half, 2 * half, Blocking(states=64)), others)
    found = settled(contest, targets)[0][:, 0]
    exact = squared_distances(rows, targets)
    np.testing.assert_array_equal(found[some], exact[some, :half].argmin(axis=1))
    np.testing.assert_array_equal(found[others], exact[others, half:].argmin(axis=1) + half)


def test_a_row_for_which_nothing_contended_finds_nothing():
    rows = clouds(10, 4, 8)
    contest = begun(rows, 2)
    contend(contest, load_slabs(rows.astype(np.float32), 0, 10, Blocking()), np.arange(5))
    found, distances = settled(contest, rows.astype(np.float32))
    assert np.all(found[:5] >= 0)
    assert np.all(found[5:] == -1)
    assert np.all(distances[5:] == np.inf)


@given(grids())
def test_the_nearest_come_in_any_order_where_none_is_asked_for(rows):
    targets = rows[::-1].astype(np.float32)
    contest = begun(rows, 3)
    contend(contest, load_slabs(targets, 0, len(targets), Blocking()))
    ranked, any_order = settled(contest, targets)[0], settled(contest, targets, ranked=False)[0]
    np.testing.assert_array_equal(np.sort(ranked, axis=1), np.sort(any_order, axis=1))


def test_a_read_only_map_of_keys_is_read_without_a_warning(tmp_path, recwarn):
    np.save(tmp_path / "keys.npy", clouds(100, 4, 8))
    load_block(np.load(tmp_path / "keys.npy", mmap_mode="r"), "cpu")
    assert not recwarn.list


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_key_that_is_not_finite_is_refused(wrong):
    rows = clouds(100, 4, 8)
    rows[31, 2] = wrong
    with pytest.raises(BadInput, match=r"row 31 .* NaN or infinity"):
        load_block(rows, "cpu")
