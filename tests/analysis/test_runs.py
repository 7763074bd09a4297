"""Search-free runs against a loop over tokens."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.analysis.runs import captured, describe_runs, find_runs
from tests.analysis.oracle import joined

SEARCHES = st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=5)


def runs_by_loop(searches):
    """Lengths of the runs: a search or a document begins one, all other tokens prolong it."""
    lengths = []
    for document in searches:
        for place, searched in enumerate(document):
            if searched or place == 0:
                lengths.append(0)
            lengths[-1] += 1
    return lengths


def made(searches):
    text = joined([[0] * len(document) for document in searches])
    return text, np.array([one for document in searches for one in document], np.bool_)


@given(SEARCHES)
def test_runs_are_what_a_loop_finds(searches):
    text, searched = made(searches)
    runs = find_runs(text, searched)
    expected = runs_by_loop(searches)
    assert runs.lengths.tolist() == expected
    facts = describe_runs(runs)
    assert dict(facts["lengths"]) == {n: expected.count(n) for n in expected}
    inside = sum(n for n in expected if n > 1)
    assert abs(facts["share_longer_than_1"] - inside / len(text)) < 1e-12
    assert (facts["runs"], facts["tokens"]) == (len(expected), len(text))
    assert facts["longest"] == max(expected)


@given(SEARCHES)
def test_captured_tokens_are_exactly_those_without_a_search(searches):
    text, searched = made(searches)
    free = captured(find_runs(text, searched), searched)
    rows = [
        row
        for first, length in zip(free.firsts, free.lengths, strict=True)
        for row in range(first, first + length)
    ]
    assert rows == np.flatnonzero(~searched).tolist()


def test_the_papers_histogram_gives_the_papers_share():
    """10.6 % of runs of length 1 and a mean length over 5 are 98 % of tokens in longer runs."""
    lengths = [1] * 106 + [2] * 158 + [3] * 156 + [5] * 300 + [10] * 280
    text, searched = made([[True] + [False] * (n - 1) for n in lengths])
    assert round(describe_runs(find_runs(text, searched))["share_longer_than_1"], 2) == 0.98
