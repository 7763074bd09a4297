"""Look-ups of suffixes: equal to the oracle's, whatever the documents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.errors import BadInput
from tests.automaton.suffix_oracle import SlowSuffixes, before_of

VOCABULARY = 4


def documents_of(unpredicted):
    """Documents with at least one entry each, of few tokens, so that much matches."""
    tokens = st.integers(0, VOCABULARY - 1)
    return st.lists(st.lists(tokens, min_size=1 + unpredicted, max_size=12), min_size=1, max_size=8)


@st.composite
def cases(draw):
    unpredicted = draw(st.integers(0, 1))
    longest = draw(st.integers(1, 5))
    # A token that the corpus never has, and rows that begin shortly before.
    tokens = st.integers(0, VOCABULARY)
    rows = draw(st.lists(st.lists(tokens, max_size=longest), min_size=1, max_size=6))
    recent = [row + [-1] * (longest - len(row)) for row in rows]
    return (
        SlowSuffixes(draw(documents_of(unpredicted)), longest, unpredicted),
        recent,
        draw(st.integers(1, 9)),
    )


def make(oracle):
    return Suffixes.of(before_of(oracle.documents, oracle.unpredicted), VOCABULARY, oracle.longest)


@given(cases())
def test_look_ups_equal_the_oracle(case):
    oracle, recent, k = case
    found = make(oracle).look_up(np.array(recent, np.int32), k)
    for row, tokens in enumerate(recent):
        entries, length = oracle.look_up(tokens, k)
        assert found.lengths[row] == length
        assert found.counts[row] == len(entries)
        assert found.entries[row].tolist() == entries + [-1] * (k - len(entries))


@given(cases())
def test_rows_do_not_depend_on_those_that_are_looked_up_with_them(case):
    oracle, recent, k = case
    suffixes, rows = make(oracle), np.array(recent, np.int32)
    together = suffixes.look_up(rows, k)
    for row in range(len(rows)):
        alone = suffixes.look_up(rows[row : row + 1], k)
        assert all(np.array_equal(a[0], b[row]) for a, b in zip(alone, together, strict=True))


def test_a_match_ends_where_a_document_begins():
    suffixes = make(SlowSuffixes([[1, 2], [3, 0]], 3))
    found = suffixes.look_up(np.array([[3, 2, 1], [2, 1, -1], [-1, -1, -1]], np.int32), 4)
    assert found.lengths.tolist() == [1, 0, 0]
    assert found.entries[0].tolist() == [3, -1, -1, -1]


def test_rows_of_another_width_are_refused():
    suffixes = make(SlowSuffixes([[1, 2]], 3))
    with pytest.raises(BadInput, match="rows of 3 needed"):
        suffixes.look_up(np.zeros((1, 4), np.int32), 2)


@pytest.mark.parametrize("name", ["order", "starts", "before"])
def test_damage_yields_less_and_never_reads_outside(name):
    suffixes = make(SlowSuffixes([[1, 2, 3, 1, 2, 0]] * 9, 3))
    column = getattr(suffixes.columns, name)
    recent = np.array([[2, 1, -1], [3, 2, 1], [1, 3, 2]], np.int32)
    for wrong in (np.roll(column, 5), column[::-1], column * 40, column - 3):
        damaged = suffixes.columns._replace(**{name: wrong.astype(column.dtype)})
        found = Suffixes(damaged, 3).look_up(recent, 60)
        assert found.entries.max() < suffixes.entries
        assert (found.counts == (found.entries >= 0).sum(axis=1)).all()
