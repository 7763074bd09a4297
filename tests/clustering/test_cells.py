"""A row is compared with the states of its nearest cells, and with no others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.assign import find_among_all
from retomaton_dist.clustering.cells import Cells, find_in_cells
from retomaton_dist.clustering.products import Blocking
from tests.clustering.data import clouds, crowds, grids, squared_distances


@st.composite
def rows_in_cells(draw):
    rows = draw(grids())
    width = rows.shape[1]
    centres = draw(grids((1, 6), width)).astype(np.float32)
    centroids = draw(grids((len(centres), 30), width)).astype(np.float32)
    states = st.integers(0, len(centroids))
    cuts = sorted(draw(states) for _ in range(len(centres) - 1))
    offsets = np.array([0, *cuts, len(centroids)])
    return rows, centroids, Cells(centres, offsets, draw(st.integers(1, 4)))


def nearest_the_obvious_way(row, centroids, cells):
    apart = squared_distances(row[None], cells.centres)[0]
    near = np.argsort(apart, kind="stable")[: cells.probes]
    ranges = [np.arange(cells.offsets[c], cells.offsets[c + 1]) for c in sorted(near)]
    states = np.concatenate(ranges)
    if not len(states):
        states = np.arange(len(centroids))
    return states[squared_distances(row[None], centroids[states])[0].argmin()]


@given(rows_in_cells(), st.integers(1, 50))
def test_the_nearest_state_of_the_nearest_cells_is_found(case, block):
    rows, centroids, cells = case
    find = find_in_cells(centroids, cells, Blocking(grouped_rows=block, states=4))
    expected = [nearest_the_obvious_way(row, centroids, cells) for row in rows]
    np.testing.assert_array_equal(find(rows).states, expected)


def test_probing_all_cells_is_comparing_with_all_states():
    rows = clouds(3000, 9, 16)
    centroids, centres = rows[:100].astype(np.float32), rows[100:110].astype(np.float32)
    cells = Cells(centres, np.arange(0, 101, 10), probes=10)
    inside = find_in_cells(centroids, cells, Blocking())(rows)
    among_all = find_among_all(centroids, Blocking())(rows)
    assert np.array_equal(inside.states, among_all.states)
    assert np.array_equal(inside.distances, among_all.distances)


def test_a_row_whose_cells_have_no_centroid_is_compared_with_all():
    rows = clouds(200, 3, 8)
    centroids = rows[:20].astype(np.float32)
    centroids[:10] = np.nan
    cells = Cells(rows[[0, 150]].astype(np.float32), np.array([0, 10, 20]), probes=1)
    found = find_in_cells(centroids, cells, Blocking())(rows).states
    left = squared_distances(rows, centroids[10:])
    np.testing.assert_array_equal(found, 10 + left.argmin(axis=1))


@pytest.mark.parametrize("blocking", [Blocking(), Blocking(7, 7, 5), Blocking(64, 50, 1024)])
@pytest.mark.parametrize("probes", [1, 2])
def test_too_many_contenders_to_remember_are_those_of_the_nearest_cells(blocking, probes):
    rows, centroids = crowds(100, 400)
    cells = Cells(centroids[::100].copy(), np.array([0, 60, 180, 180, 400]), probes)
    found = find_in_cells(centroids, cells, blocking)(rows).states
    expected = [nearest_the_obvious_way(row, centroids, cells) for row in rows]
    np.testing.assert_array_equal(found, expected)
    among_all = find_among_all(centroids, blocking)(rows).states
    assert np.any(found != among_all), "these rows tell nothing"
