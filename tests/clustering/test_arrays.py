"""Rows are cut into blocks of a bounded size."""

from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.arrays import blocks_of


@given(st.integers(0, 200), st.integers(1, 50))
def test_blocks_cover_all_rows_in_order_and_only_the_last_is_shorter(rows, size):
    blocks = [range(part.start, part.stop) for part in blocks_of(rows, size)]
    assert [row for block in blocks for row in block] == [*range(rows)]
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)
