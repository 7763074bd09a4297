"""The most probable search-free sequences."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.analysis.runs import SHOWN, free_starts, most_probable
from tests.analysis.oracle import joined

TEXTS = st.lists(st.lists(st.integers(0, 2), max_size=15), min_size=1, max_size=4)


def spelled(tokens):
    return " ".join(map(str, tokens))


@given(documents=TEXTS, data=st.data(), length=st.integers(1, 4))
def test_free_starts_begin_sequences_without_a_search(documents, data, length):
    text = joined(documents)
    searched = np.array([data.draw(st.booleans()) for _ in range(len(text))], np.bool_)
    expected = [
        first
        for begin, end in zip(text.bounds[:-1], text.bounds[1:], strict=True)
        for first in range(begin, end - length + 1)
        if not any(searched[first : first + length])
    ]
    assert free_starts(text, searched, length).tolist() == expected


def test_a_repeated_sequence_is_listed_once_with_its_mean_probability():
    text = joined([[1, 2], [1, 2], [3, 4]])
    log_p = np.log([0.9, 0.4, 0.1, 0.1, 0.5, 0.5])
    first, second = most_probable(text, np.array([0, 2, 4]), 2, log_p, spelled)
    assert (first["text"], first["count"]) == ("3 4", 1)
    assert math.isclose(first["probability"], 0.25)
    assert (second["text"], second["count"]) == ("1 2", 2)
    assert math.isclose(second["probability"], math.sqrt(0.36 * 0.01))
    assert math.isclose(second["probability_per_token"], math.sqrt(second["probability"]))


def test_of_overlapping_sequences_only_the_best_is_listed():
    text = joined([[1, 2, 3, 4, 5]])
    log_p = np.log([0.1, 0.9, 0.9, 0.5, 0.5])
    found = most_probable(text, np.arange(4), 2, log_p, spelled)
    assert [one["text"] for one in found] == ["2 3", "4 5"]


def test_no_more_sequences_are_listed_than_asked_for():
    text = joined([list(range(100))])
    assert len(most_probable(text, np.arange(99), 2, np.zeros(100), spelled)) == SHOWN


def test_without_sequences_nothing_is_listed():
    assert most_probable(joined([[1]]), np.empty(0, np.int64), 3, np.zeros(1), spelled) == []


def test_a_token_without_probability_does_not_spoil_others():
    found = most_probable(joined([[1], [2]]), np.arange(2), 1, np.array([-np.inf, -1.0]), spelled)
    assert [one["text"] for one in found] == ["2", "1"]
    assert found[1]["probability"] == 0
