"""Steps since a restart: over whole documents, and where rows carry on from earlier ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.scores.seen import steps_since

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


@given(documents, st.integers(0, 30))
def test_rows_in_two_parts_carry_on_where_they_were(rows, cut):
    rows = sorted(rows, key=lambda row: row[0])
    numbers = np.array([number for number, _ in rows], np.int32)
    restarted = np.array([found for _, found in rows], np.bool_)
    whole = steps_since(numbers, restarted)
    before = steps_since(numbers[:cut], restarted[:cut])
    carried = np.zeros(len(rows) - len(before), np.int64)
    if len(before):
        carried[numbers[cut:] == numbers[:cut][-1]] = before[-1] + 1
    after = steps_since(numbers[cut:], restarted[cut:], carried)
    assert np.array_equal(np.concatenate([before, after]), whole)
