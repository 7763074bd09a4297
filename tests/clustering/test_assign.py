"""Every row gets the nearest centroid of those it is compared with: all, or its nearest cells'.

What is multiplied with what at once changes nothing.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.assign import Cells, find_among_all, find_in_cells
from retomaton_dist.clustering.products import Blocking
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

BLOCKINGS = st.builds(Blocking, rows=st.integers(1, 50), states=st.integers(1, 50))


@given(rows_and_centroids(), BLOCKINGS)
def test_the_nearest_is_found_and_ties_go_to_the_lower_state(pair, blocking):
    rows, centroids = pair
    nearest = find_among_all(centroids, blocking)(rows)
    exact = squared_distances(rows, centroids)
    assert nearest.states.dtype == np.int32
    assert nearest.distances.dtype == np.float32
    np.testing.assert_array_equal(nearest.states, exact.argmin(axis=1))
    np.testing.assert_array_equal(nearest.distances, exact.min(axis=1))


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


def test_without_any_centroid_there_is_nothing_to_find():
    with pytest.raises(BadInput, match="no state has a centroid"):
        find_among_all(np.full((3, 8), np.nan, np.float32), Blocking())


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
