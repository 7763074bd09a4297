"""What shares answer with adds up to the same, however the rows are divided among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.assign import finder
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import (
    CellSplit,
    add_assigned,
    assign_rows,
    by_state,
    limited,
    spread_unit,
)
from tests.clustering.data import DIVISIONS, clouds, divided, squared_distances


@given(DIVISIONS)
def test_assignments_of_parts_add_up_to_that_of_the_whole(cuts):
    keys = clouds(200, 5, 4)
    centroids = keys[:9].astype(np.float32)
    find, unit = finder(centroids, None, Blocking()), spread_unit(centroids)
    states, whole = assign_rows(keys, None, find, 9, unit)
    parts = [assign_rows(part, None, find, 9, unit) for part in divided(keys, cuts)]
    added = add_assigned([assigned for _, assigned in parts])
    np.testing.assert_array_equal(np.concatenate([found for found, _ in parts]), states)
    np.testing.assert_array_equal(added.counts, whole.counts)
    np.testing.assert_array_equal(added.spreads, whole.spreads)
    assert (added.inertia, added.moved) == (whole.inertia, whole.moved)


def test_an_assignment_is_summed_up():
    keys = clouds(200, 5, 4)
    centroids = keys[:9].astype(np.float32)
    find, unit = finder(centroids, None, Blocking()), spread_unit(centroids)
    states, first = assign_rows(keys, None, find, 9, unit)
    before = np.where(np.arange(200) < 30, (states + 1) % 9, states).astype(np.int32)
    _, second = assign_rows(keys, before, find, 9, unit)
    apart = squared_distances(keys, centroids).min(axis=1)
    assert (first.moved, second.moved) == (200, 30)
    np.testing.assert_array_equal(first.counts, np.bincount(states, minlength=9))
    np.testing.assert_allclose(first.spreads * unit, np.bincount(states, apart, 9), atol=200 * unit)
    assert first.inertia == pytest.approx(apart.sum(), rel=1e-6)


@given(st.lists(st.integers(0, 5), max_size=50))
def test_rows_are_ordered_by_state(numbers):
    states = np.array(numbers, np.int32)
    order, offsets = by_state(states, 6)
    for state in range(6):
        members = order[offsets[state] : offsets[state + 1]]
        np.testing.assert_array_equal(members, np.flatnonzero(states == state))


@given(st.integers(0, 300), st.integers(1, 40), st.lists(st.integers(0, 300), max_size=3))
def test_limiting_parts_and_then_what_they_keep_is_limiting_the_whole(rows, limit, cuts):
    split = CellSplit(cell=0, states=1, limit=limit, iterations=1, seed=3)
    members = np.arange(rows) * 7
    kept = limited(members, split)
    parts = [limited(part, split) for part in divided(members, cuts)]
    np.testing.assert_array_equal(limited(np.concatenate(parts), split), kept)
    assert len(kept) == min(rows, limit)
