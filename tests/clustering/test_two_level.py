"""When there are cells, how many, and how many states each is split into."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.two_level import (
    MANY_STATES,
    SPLIT_WORK,
    TwoLevel,
    apportion,
    cells_for,
    masses_of,
    split_rows,
    wants_two_levels,
)

MASSES = st.lists(st.integers(0, 10**9), min_size=1, max_size=40).filter(any)


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


def test_two_levels_are_for_work_that_plain_k_means_takes_long_for():
    assert not wants_two_levels(10_000, 100, 256, 20)
    assert not wants_two_levels(10**9, 100, 1024, 20)
    assert not wants_two_levels(300_000, 3000, 256, 10)
    assert wants_two_levels(600_000, 6000, 256, 10)
    assert wants_two_levels(10**8, 10**6, 1024, 20)


@pytest.mark.parametrize(
    ("states", "cells"), [(1, 1), (400, 40), (MANY_STATES, 346), (10**5, 1000), (10**6, 10_000)]
)
def test_cells_of_many_states_no_longer_grow(states, cells):
    assert cells_for(states) == cells


@given(st.integers(1, 10**5), st.integers(1, 4096))
def test_a_cell_is_split_from_no_more_rows_than_a_moment_allows(states, dimension):
    rows, settings = split_rows(states, dimension, TwoLevel()), TwoLevel()
    assert 4 * states <= rows <= settings.rows_per_state * states
    work = rows * states * dimension * settings.split_iterations
    assert rows == 4 * states or work <= SPLIT_WORK
