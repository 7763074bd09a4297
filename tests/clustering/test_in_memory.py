"""Shares in one process: rows in several parts are as good as in one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.in_memory import InMemory, split_cell
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import CellSplit
from tests.clustering.data import DIVISIONS, clouds, divided

ROWS = 60


@given(DIVISIONS, st.sets(st.integers(0, ROWS - 1)))
def test_rows_are_taken_from_whatever_part_they_are_in(cuts, chosen):
    keys, rows = clouds(ROWS, 5, 4), np.array(sorted(chosen), np.int64)
    shares = InMemory(divided(keys, cuts), Blocking())
    assert shares.rows == ROWS
    np.testing.assert_array_equal(shares.take(rows), keys[rows])


def test_cells_are_split_into_states_of_their_own_members():
    keys = clouds(400, 4, 8)
    shares = InMemory(np.split(keys, [100, 250]), Blocking())
    shares.assign(keys[:3].astype(np.float32), None)
    splits = [CellSplit(cell, states=5, limit=400, iterations=4, seed=1) for cell in (0, 2)]
    for split, centroids in zip(splits, shares.split(splits), strict=True):
        alone = split_cell(keys[shares.states == split.cell], split, Blocking())
        np.testing.assert_array_equal(centroids, alone)
