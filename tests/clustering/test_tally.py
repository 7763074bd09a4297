"""Tallies of parts add up to the same for any range of states, exactly, in any order."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.assign import Nearest
from retomaton_dist.clustering.sums import (
    UNIT,
    add_tally,
    empty_range,
    norms_of,
    spread_unit,
    tally_of,
)
from retomaton_dist.clustering.update import moved_centroids
from tests.clustering.data import DIVISIONS, divided

STATES = 7
STEP = 2.0**-6


def assigned_rows(count, dimension, seed):
    """Keys of very different magnitudes in some of the states, at whole numbers of steps."""
    chosen = np.random.default_rng(seed)
    scales = 2.0 ** chosen.integers(-24, 9, (count, dimension))
    keys = (chosen.standard_normal((count, dimension)) * scales).astype(np.float16)
    states = chosen.choice([0, 2, 3, 6], count).astype(np.int32)
    return keys, states, (chosen.integers(0, 900, count) * STEP).astype(np.float32)


CASES = st.builds(assigned_rows, st.integers(1, 60), st.integers(1, 11), st.integers(0, 10**6))


def added(parts, first, last, dimension):
    total = empty_range(first, last, dimension)
    for keys, states, distances in parts:
        if len(keys):
            add_tally(total, tally_of(keys, Nearest(states, distances), STEP))
    return total


@given(CASES, DIVISIONS, st.integers(0, STATES), st.integers(0, STATES), st.randoms())
def test_a_range_of_states_is_what_its_members_add_up_to(case, cuts, one, other, shuffled):
    keys, states, distances = case
    parts = list(zip(*(divided(array, cuts) for array in case), strict=True))
    shuffled.shuffle(parts)
    first, last = sorted((one, other))
    total = added(parts, first, last, keys.shape[1])
    for state in range(first, last):
        members, place = states == state, state - first
        exact = [math.fsum(column) for column in keys[members].astype(float).T]
        np.testing.assert_array_equal(total.keys[place] * UNIT, exact)
        largest = np.abs(keys[members].astype(float)).max(axis=1, initial=0)
        assert total.magnitudes[place] == np.sum(np.floor(largest) + 1)
        assert total.counts[place] == members.sum()
        assert total.spreads[place] == math.fsum(distances[members]) / STEP


@given(CASES, st.integers(0, STATES))
def test_centroids_of_two_ranges_are_those_of_one(case, middle):
    keys, offsets = case[0], np.arange(STATES + 1)
    whole = moved_centroids(added([case], 0, STATES, keys.shape[1]), STEP, offsets)
    parts = [
        moved_centroids(
            added([case], first, last, keys.shape[1]), STEP, offsets[first : last + 1]
        ).centroids
        for first, last in ((0, middle), (middle, STATES))
        if first < last
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole.centroids)
    empty = ~np.isin(np.arange(STATES), case[1])
    assert np.isnan(whole.centroids[empty]).all()
    assert np.isfinite(whole.centroids[~empty]).all()


def test_only_states_with_members_are_listed():
    keys, states, distances = assigned_rows(40, 3, 1)
    tally = tally_of(keys, Nearest(states, distances), STEP)
    np.testing.assert_array_equal(tally.states, [0, 2, 3, 6])
    assert tally.keys.shape == (4, 3)


def test_the_spread_unit_is_a_millionth_of_the_mean_square_of_what_there_is():
    centroids = np.array([[3, 4], [np.nan, np.nan], [1, 2]], np.float32)
    assert norms_of(centroids) == (2, 30.0)
    assert spread_unit(2, 30.0) == 15 / 2**20
    assert spread_unit(3, 0.0) == 1.0
