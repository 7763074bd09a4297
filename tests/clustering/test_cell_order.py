"""Rows in the order of their nearest cells, each at one place; how many states a cell gets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from retomaton_dist.clustering.cell_order import (
    SPLIT_WORK,
    apportion,
    count_rows,
    group_cells,
    limited,
    masses_of,
    places_of_units,
    runs_of,
    split_rows,
    weigh,
)
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import ROWS_PER_STATE, SPLIT_ITERATIONS
from tests.clustering.data import DIVISIONS, clouds, divided

CELLS = 6
MASSES = st.lists(st.integers(0, 10**9), min_size=1, max_size=40).filter(any)
NEAR = arrays(np.int32, st.tuples(st.integers(1, 80), st.just(2)), elements=st.integers(0, 5))


@given(NEAR, DIVISIONS)
def test_rows_are_ordered_by_cell_and_within_a_cell_as_they_came(near, cuts):
    units = divided(near, cuts)
    counts = [count_rows(unit, CELLS) for unit in units]
    ordered = np.full(len(near), -1)
    first = 0
    for unit, places in zip(units, places_of_units(lambda: iter(counts)), strict=True):
        for run in runs_of(unit, places):
            taken = slice(run.place, run.place + len(run.rows))
            assert np.all(ordered[taken] == -1), "two rows at one place"
            ordered[taken] = first + run.rows
        first += len(unit)
    np.testing.assert_array_equal(ordered, np.argsort(near[:, 0], kind="stable"))


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 40))
def test_at_most_so_many_rows_are_drawn_in_ascending_order(first, count, limit):
    rows = limited(first, first + count, limit, seed=3)
    assert len(rows) == min(count, limit)
    assert np.all(np.diff(rows) > 0)
    assert np.all((first <= rows) & (rows < first + count))


def apart(keys):
    exact = keys.astype(np.float64)
    return ((exact - exact.mean(axis=0)) ** 2).sum()


def test_a_cell_weighs_what_its_different_keys_lie_apart():
    keys = clouds(100, 5, 4)
    assert weigh(keys, 100, Blocking()) == pytest.approx(apart(keys), rel=1e-5)
    keys[:60] = keys[0]
    expected = apart(keys[59:])
    assert weigh(keys, 100, Blocking()) == pytest.approx(expected, rel=1e-5)
    assert weigh(keys, 1000, Blocking()) == pytest.approx(10 * expected, rel=1e-5)
    assert weigh(keys[:60], 10**6, Blocking()) == 0
    assert weigh(keys[:0], 0, Blocking()) == 0


def test_a_cell_weighs_the_same_however_its_rows_are_multiplied():
    keys = clouds(500, 9, 24)
    assert weigh(keys, 500, Blocking()) == weigh(keys, 500, Blocking(rows=7, states=16))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 30))
def test_groups_of_cells_are_whole_and_no_larger_than_asked(sizes, most):
    groups = group_cells(np.array(sizes), most)
    assert [cell for first, last in groups for cell in range(first, last)] == [*range(len(sizes))]
    for first, last in groups:
        assert last - first == 1 or sum(sizes[first:last]) <= most
    for first, last in groups[:-1]:
        assert sum(sizes[first : last + 1]) > most


@given(MASSES, st.integers(0, 10**6))
def test_states_are_apportioned_by_mass(masses, more):
    masses = np.array(masses)
    cells = np.count_nonzero(masses)
    shares = apportion(masses, cells + more)
    assert shares.sum() == cells + more
    exact = (masses > 0) + more * (masses / masses.sum())
    assert np.all(np.abs(shares - exact) < 1.001)
    assert np.all((shares > 0) == (masses > 0))
    assert np.all(np.diff(shares[np.argsort(masses, kind="stable")]) >= -1)


@given(st.lists(st.floats(0, 1e30), min_size=1, max_size=40))
def test_masses_are_weights_in_proportion_and_every_cell_with_rows_has_some(weights):
    weights = np.array(weights)
    rows = np.arange(len(weights)) % 3
    masses = masses_of(np.where(rows > 0, weights, 0), rows)
    assert np.all((masses > 0) == (rows > 0))
    total = weights[rows > 0].sum()
    expected = weights[rows > 0] / (total or 1) * masses.sum()
    assert masses[rows > 0] == pytest.approx(expected, rel=1e-6, abs=50)


def test_equal_remainders_go_to_the_lower_cell():
    assert apportion(np.array([5, 5, 5]), 5).tolist() == [2, 2, 1]


@given(st.integers(1, 10**5), st.integers(1, 4096))
def test_a_cell_is_split_from_no_more_rows_than_a_moment_allows(states, dimension):
    rows = split_rows(states, dimension)
    assert 4 * states <= rows <= ROWS_PER_STATE * states
    work = rows * states * dimension * SPLIT_ITERATIONS
    assert rows == 4 * states or work <= SPLIT_WORK
