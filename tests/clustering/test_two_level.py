"""Two levels: states apportioned by mass, inertia close to plain k-means, no bit by division."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.in_memory import InMemory
from retomaton_dist.clustering.lloyd import LloydProgress, Stop, lloyd
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.two_level import (
    TwoLevel,
    apportion,
    plan_cells,
    split_cells,
    wants_two_levels,
)
from tests.clustering.data import clouds

MASSES = st.lists(st.integers(0, 10**9), min_size=1, max_size=40).filter(any)
MEMORY = 1 << 24


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


def test_equal_remainders_go_to_the_lower_cell():
    assert apportion(np.array([5, 5, 5]), 5).tolist() == [2, 2, 1]


def two_level(parts, states, iterations=8):
    shares, blocking = InMemory(parts, Blocking()), Blocking()
    plan = plan_cells(shares, states, TwoLevel(), 1, blocking)
    cells, start = split_cells(shares, plan, TwoLevel(), 1)
    done = lloyd(shares, start, Stop(iterations, -1), MEMORY, cells)
    return shares, cells, done, shares.assign(done.centroids, cells)


def plain(keys, states, iterations=8):
    shares = InMemory([keys], Blocking())
    start = LloydProgress(first_centroids(len(keys), shares.take, states, 1))
    done = lloyd(shares, start, Stop(iterations, -1), MEMORY)
    return shares.assign(done.centroids, None)


@pytest.mark.parametrize(("centres", "width"), [(100, 0.5), (2000, 0.3), (1, 1.0)])
def test_inertia_is_within_three_per_cent_of_plain_k_means(centres, width):
    keys = clouds(20000, centres, 32, width=width)
    *_, assigned = two_level([keys], 400)
    assert assigned.inertia <= 1.03 * plain(keys, 400).inertia
    assert np.count_nonzero(assigned.counts == 0) == 0


def test_dividing_rows_differently_changes_no_bit():
    keys = clouds(6000, 50, 16)
    keys[::7] = keys[0]
    results = [two_level(np.array_split(keys, parts), 150, 3) for parts in (1, 2, 3)]
    for shares, cells, done, assigned in results[1:]:
        assert np.array_equal(cells.centres, results[0][1].centres)
        assert np.array_equal(cells.offsets, results[0][1].offsets)
        assert np.array_equal(done.centroids, results[0][2].centroids)
        assert done.history == results[0][2].history
        assert np.array_equal(shares.states, results[0][0].states)
        assert assigned.inertia == results[0][3].inertia


def test_equal_keys_do_not_claim_states_by_their_mass():
    keys = clouds(20000, 200, 16)
    keys[:10000] = keys[0]
    *_, assigned = two_level([keys], 200)
    assert np.count_nonzero(assigned.counts == 0) <= 4
    assert assigned.inertia <= 1.05 * plain(keys, 200).inertia


def test_identical_keys_are_one_state():
    keys = np.tile(np.float16([0.5, -2, 0]), (500, 1))
    *_, done, assigned = two_level([keys], 50)
    assert assigned.inertia == 0
    assert np.count_nonzero(assigned.counts) == 1
    assert len(done.centroids) == 50


def test_two_levels_are_for_work_that_plain_k_means_takes_long_for():
    assert not wants_two_levels(10_000, 100, 256, 20)
    assert not wants_two_levels(10**9, 100, 1024, 20)
    assert wants_two_levels(300_000, 3000, 256, 10)
    assert wants_two_levels(10**8, 10**6, 1024, 20)
