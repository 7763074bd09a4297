"""Iterations that see some of the rows: which, how many, and what comes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering import samples
from retomaton_dist.clustering.assign import find_among_all
from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.lloyd import Stop, lloyd
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.samples import passes, rows_seen, strides_for
from tests.clustering.data import clouds


@given(st.integers(1, 10**9), st.integers(1, 10**7), st.integers(1, 60))
def test_iterations_see_more_and_more_rows_and_the_last_one_all(rows, states, iterations):
    strides = strides_for(rows, states, iterations)
    assert len(strides) == iterations
    assert list(strides) == sorted(strides, reverse=True)
    assert strides[-1] == 1


@given(st.integers(1, 10**9), st.integers(1, 10**7), st.integers(1, 60))
def test_a_sample_has_some_rows_for_every_state(rows, states, iterations):
    largest = strides_for(rows, states, iterations)[0]
    assert largest == 1 or rows / largest >= max(6 * states, samples.LEAST_ROWS)


def test_ten_iterations_over_a_hundred_rows_per_state_take_a_quarter_of_the_work():
    assert strides_for(300_000, 3000, 10) == (16, 16, 16, 8, 8, 8, 4, 4, 2, 1)
    assert passes(300_000, 3000, 10) == pytest.approx(2.5625)


def test_few_rows_are_always_seen_whole():
    assert strides_for(4000, 3, 5) == (1, 1, 1, 1, 1)


@pytest.mark.parametrize("stride", [1, 2, 4, 16])
def test_about_one_row_in_a_stride_is_seen_wherever_rows_are_cut(stride):
    whole = rows_seen(0, 100_000, 3, stride)
    assert len(whole) == pytest.approx(100_000 / stride, rel=0.05)
    parts = [rows_seen(first, first + 12_500, 3, stride) for first in range(0, 100_000, 12_500)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_every_iteration_draws_other_rows():
    first, second = (set(rows_seen(0, 100_000, number, 16).tolist()) for number in (0, 1))
    assert len(first & second) == pytest.approx(100_000 / 256, rel=0.2)


def clustered(keys, states, iterations):
    start = first_centroids(len(keys), keys.__getitem__, states, 1)
    done = lloyd(keys, start, Stop(iterations, -1), Blocking())
    return done, find_among_all(done.centroids, Blocking())(keys).distances.sum()


@pytest.mark.parametrize(("centres", "width"), [(500, 0.3), (60, 0.7), (1, 1.0)])
def test_samples_end_with_no_more_inertia_than_all_rows(monkeypatch, centres, width):
    keys = clouds(20_000, centres, 16, width=width)
    _, sampled = clustered(keys, 200, 10)
    monkeypatch.setattr(samples, "LEAST_ROWS", len(keys))
    done, whole = clustered(keys, 200, 10)
    assert all(iteration.seen == len(keys) for iteration in done.history)
    assert sampled <= 1.005 * whole


def test_inertia_is_told_for_all_rows_and_moves_only_where_all_were_seen():
    keys = clouds(40_000, 50, 8)
    done, _ = clustered(keys, 100, 6)
    assert [iteration.moved for iteration in done.history] == [None] * 6
    seen = [iteration.seen / len(keys) for iteration in done.history]
    assert seen == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 2, 1], rel=0.05)
    last, before = done.history[-1], done.history[-2]
    assert before.inertia == pytest.approx(last.inertia, rel=0.1)
