"""The cells that a row sees, and its state among theirs, through any number of levels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.assign import (
    Cells,
    CellSlabs,
    cell_finder,
    find_in_cells,
    find_in_seen_cells,
)
from retomaton_dist.clustering.products import Blocking
from tests.clustering.data import clouds, crowds, grids, squared_distances


def cut(draw, states, parts):
    """Divide states among cells at random; some may have none."""
    cuts = sorted(draw(st.integers(0, states)) for _ in range(parts - 1))
    return np.array([0, *cuts, states])


@st.composite
def rows_in_three_levels(draw):
    rows = draw(grids())
    width = rows.shape[1]
    top, middle, states = (
        draw(grids(sizes, width)).astype(np.float32) for sizes in ((1, 4), (1, 12), (1, 40))
    )
    above = Cells(top, cut(draw, len(middle), len(top)), draw(st.integers(1, 3)))
    offsets = cut(draw, len(states), len(middle))
    return rows, states, Cells(middle, offsets, draw(st.integers(1, 4)), above)


def nearest(row, targets, among, count):
    """The nearest of some targets in float64, ties to the lower."""
    apart = squared_distances(row[None], targets[among])[0]
    return among[np.argsort(apart, kind="stable")[:count]]


def seen_the_obvious_way(row, cells):
    among = np.arange(len(cells.centres))
    if cells.above is not None:
        among = states_of(seen_the_obvious_way(row, cells.above), cells.above, len(among))
    return nearest(row, cells.centres, among, cells.probes)


def states_of(seen, cells, states):
    ranges = [np.arange(cells.offsets[c], cells.offsets[c + 1]) for c in sorted(seen)]
    found = np.concatenate(ranges)
    return found if len(found) else np.arange(states)


@given(rows_in_three_levels(), st.integers(1, 50), st.integers(1, 8))
def test_rows_see_the_nearest_cells_of_the_nearest_cells(case, block, at_once):
    rows, centroids, cells = case
    blocking = Blocking(rows=at_once, grouped_rows=block, states=4)
    near = cell_finder(cells, blocking, ranked=True)(rows)
    states = find_in_cells(centroids, cells, blocking)(rows).states
    for row, found, state in zip(rows, near, states, strict=True):
        seen = seen_the_obvious_way(row, cells)
        np.testing.assert_array_equal(found[found >= 0], seen)
        among = states_of(seen, cells, len(centroids))
        assert state == nearest(row, centroids, among, 1)[0]


def test_three_levels_are_three():
    two = Cells(np.zeros((1, 2), np.float32), np.array([0, 1]), 1)
    assert (two.levels, Cells(two.centres, two.offsets, 1, two).levels) == (2, 3)


def test_rows_that_know_their_cells_get_the_same_states():
    rows, centroids = crowds(200, 400)
    cells = Cells(centroids[::100].copy(), np.array([0, 60, 180, 300, 400]), 2)
    blocking = Blocking(rows=16, states=32)
    near = cell_finder(cells, blocking, ranked=True)(rows)
    found = find_in_seen_cells(centroids, cells.offsets, blocking)(rows, near)
    whole = find_in_cells(centroids, cells, Blocking())(rows)
    np.testing.assert_array_equal(found.states, whole.states)
    np.testing.assert_array_equal(found.distances, whole.distances)


def test_the_order_of_rows_changes_no_state():
    rows = clouds(3000, 9, 16)
    centroids, centres = rows[:100].astype(np.float32), rows[100:110].astype(np.float32)
    cells = Cells(centres, np.arange(0, 101, 10), probes=3)
    find = find_in_cells(centroids, cells, Blocking())
    order = np.argsort(cell_finder(cells, Blocking(), ranked=True)(rows)[:, 0], kind="stable")
    np.testing.assert_array_equal(find(rows).states[order], find(rows[order]).states)


def test_slabs_beyond_the_memory_for_them_are_brought_anew_each_time():
    targets, offsets = clouds(64, 4, 8).astype(np.float32), np.arange(0, 65, 16)
    bytes_of_a_cell = 16 * 8 * 4
    slabs = CellSlabs(targets, offsets, Blocking(slab_memory=2 * bytes_of_a_cell))
    kept, first = (slabs[0], slabs[1]), slabs[3]
    assert [slab.first for slab in first] == [48]
    again = slabs[3]
    assert again is not first
    assert (slabs[0], slabs[1]) == kept
    np.testing.assert_array_equal(again[0].doubled.numpy(), first[0].doubled.numpy())
