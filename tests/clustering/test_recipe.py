"""How a k-means is done: when there are cells, and how many."""

import pytest

from retomaton_dist.clustering.recipe import MANY_STATES, Recipe, cells_for, wants_two_levels


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


def test_a_row_is_compared_with_few_states_where_there_are_many():
    assert Recipe(256, 1, 1, 0, two_level=False).per_row == 256
    assert Recipe(10_000, 1, 1, 0, two_level=True).per_row == 500
    assert Recipe(10**6, 1, 1, 0, two_level=True).per_row == 1100
