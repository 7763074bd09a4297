"""Sums of keys are exact, so that neither ranges nor divisions nor order change a centroid."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from retomaton_dist.clustering.sums import UNIT, RangeTally, digits_of, partial_sums, total_of
from retomaton_dist.clustering.update import EXACT_BELOW, means_of
from retomaton_dist.errors import BadInput
from tests.clustering.data import DIVISIONS, divided

STATES = 5


def rows_of_states(count, dimension, seed):
    """Keys of very different magnitudes, down to the smallest float16, in some of the states."""
    chosen = np.random.default_rng(seed)
    scales = 2.0 ** chosen.integers(-24, 9, (count, dimension))
    keys = (chosen.standard_normal((count, dimension)) * scales).astype(np.float16)
    return keys, chosen.integers(0, STATES, count).astype(np.int32)


def tally(sums, magnitudes, counts, first=0):
    """What the members of states, so many each, add up to."""
    return RangeTally(first, np.array(counts), np.zeros(len(counts), np.int64), sums, magnitudes)


CASES = st.builds(rows_of_states, st.integers(1, 60), st.integers(1, 11), st.integers(0, 10**6))


@given(CASES)
def test_sums_are_exact(case):
    keys, states = case
    sums, magnitudes = partial_sums(keys, states, STATES)
    for state in range(STATES):
        members = keys[states == state].astype(float)
        exact = [math.fsum(column) for column in members.T]
        np.testing.assert_array_equal(sums[state] * UNIT, exact)
        largest = np.abs(members).max(axis=1, initial=0)
        assert magnitudes[state] == np.sum(np.floor(largest) + 1)


def test_a_centroid_is_the_mean_of_its_members_and_nothing_without_them():
    sums = partial_sums(np.array([[1, 2], [2, 4]], np.float16), np.array([1, 1], np.int32), 3)
    centroids = means_of(tally(*sums, [0, 2, 0]))
    assert centroids.dtype == np.float32
    np.testing.assert_array_equal(centroids, [[np.nan] * 2, [1.5, 3], [np.nan] * 2])


LARGEST = 65504


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 2.0**-24, -(2.0**-24), 0, -0.0, 2047])
def test_every_float16_is_a_whole_number_of_units(value):
    keys = np.full((3, 2), value, np.float16)
    sums, magnitudes = partial_sums(keys, np.zeros(3, np.int32), 1)
    np.testing.assert_array_equal(sums, [[int(value * 2**24) * 3] * 2])
    centroid = means_of(tally(sums, magnitudes, [3]))
    np.testing.assert_array_equal(centroid, [[value] * 2])
    assert not np.signbit(centroid[centroid == 0]).any()


def members_of_one_state(members):
    """What 2^12 of the largest keys add up to, taken as often as it takes."""
    keys = np.full((1 << 12, 2), LARGEST, np.float16)
    keys[:, 1] *= -1
    sums, magnitudes = partial_sums(keys, np.zeros(len(keys), np.int32), 1)
    times = members // len(keys)
    return tally(sums * times, magnitudes * times, [members], first=40)


def test_eight_million_of_the_largest_keys_have_a_mean():
    members = 1 << 23
    centroid = means_of(members_of_one_state(members))
    np.testing.assert_array_equal(centroid, [[LARGEST, -LARGEST]])


def test_sums_that_an_int64_may_not_hold_are_refused():
    members = (1 << 23) + (1 << 13)
    with pytest.raises(BadInput, match=r"state 40 may add up beyond 2\^39.*--sample"):
        means_of(members_of_one_state(members))


def test_the_bound_on_magnitudes_is_the_bound_of_an_int64():
    largest = EXACT_BELOW * 2**24 - 1
    assert largest == np.iinfo(np.int64).max
    sums, magnitudes = np.array([[largest, -largest]]), np.array([EXACT_BELOW])
    centroids = means_of(tally(sums, magnitudes, [1]))
    np.testing.assert_array_equal(centroids, [[2.0**39, -(2.0**39)]])
    with pytest.raises(BadInput, match="beyond"):
        means_of(tally(sums, magnitudes + 1, [1]))


@given(CASES)
def test_a_mean_is_the_exact_sum_divided_once(case):
    keys, states = case
    counts = np.bincount(states, minlength=STATES)
    centroids = means_of(tally(*partial_sums(keys, states, STATES), counts))
    for state in np.flatnonzero(counts):
        exact = [math.fsum(column) for column in keys[states == state].astype(float).T]
        np.testing.assert_array_equal(centroids[state], np.float32(np.array(exact) / counts[state]))


@given(arrays(np.float32, st.integers(0, 50), elements=st.floats(0, 2.0**100, width=32)), DIVISIONS)
def test_a_total_is_rounded_once_however_its_numbers_are_divided(numbers, cuts):
    digits = sum(digits_of(part) for part in divided(numbers, cuts))
    assert total_of(digits) == math.fsum(numbers)
