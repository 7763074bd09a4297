"""Steps since a restart, over whole documents."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.engine.scores import steps_since

documents = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30)


@given(documents)
def test_steps_since_a_restart_begin_anew_with_every_document(rows):
    rows = sorted(rows, key=lambda row: row[0])
    numbers = np.array([number for number, _ in rows], np.int32)
    searched = np.array([found for _, found in rows], np.bool_)
    expected, steps = [], 0
    for place, (number, found) in enumerate(rows):
        fresh = place == 0 or rows[place - 1][0] != number
        steps = 0 if found or fresh else steps + 1
        expected.append(steps)
    assert steps_since(numbers, searched).tolist() == expected
