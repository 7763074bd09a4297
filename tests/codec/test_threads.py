"""Threads share rows out, all of them and each once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.codec.threads import Threads


@given(st.integers(1, 4), st.integers(0, 9))
def test_every_row_is_in_one_part_and_parts_are_alike_in_size(count, rows):
    team, parts = Threads(count), {}
    team.run(lambda share, part: parts.update({share: range(rows)[part]}), rows)
    team.close()
    assert sorted(row for part in parts.values() for row in part) == list(range(rows))
    assert all(0 <= share < count for share in parts)
    sizes = [len(part) for part in parts.values()]
    assert not sizes or 1 <= max(sizes) <= min(sizes) + 1


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_in_any_thread_is_raised(failing):
    def work(share, part):
        if share == failing:
            raise ValueError(f"part {part.start}")

    team = Threads(2)
    with pytest.raises(ValueError, match=f"part {failing}"):
        team.run(work, 2)
    team.close()
