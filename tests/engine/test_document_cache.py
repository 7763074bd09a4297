"""The document cache against a slow oracle: interpolated Witten-Bell over the text so far."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.engine.document_cache import LONGEST, WINDOW, cache_targets, cache_votes

VOCABULARY = 5

texts = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=30), min_size=1, max_size=5)


def oracle(text: list[int], lm: np.ndarray) -> tuple[np.ndarray, int]:
    """p_cache of every token behind `text`, and the longest context that was seen before."""
    p, matched = lm.copy(), 0
    for size in range(LONGEST + 1):
        if size > len(text):
            break
        context = text[len(text) - size :]
        followers = [
            text[end] for end in range(size, len(text)) if text[end - size : end] == context
        ]
        if not followers:
            break
        counts, different = np.bincount(followers, minlength=VOCABULARY), len(set(followers))
        p = (counts + different * p) / (len(followers) + different)
        matched = size
    return p, matched


def joined(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = np.array([len(row) for row in rows])
    ends = np.cumsum(sizes)
    return np.array([token for row in rows for token in row], np.int32), ends - sizes, ends


@given(texts, st.integers(0, VOCABULARY - 1))
def test_every_token_has_the_probability_of_interpolated_witten_bell(
    rows: list[list[int]], target: int
) -> None:
    tokens, begins, ends = joined(rows)
    lm = np.arange(1, VOCABULARY + 1) / np.arange(1, VOCABULARY + 1).sum()
    targets = np.full(len(rows), target, np.int32)
    one = cache_targets(tokens, begins, ends, targets, VOCABULARY)
    whole = cache_votes(tokens, begins, ends, VOCABULARY)
    for row, text in enumerate(rows):
        expected, matched = oracle(text, lm)
        dense = whole.escape[row] * lm
        for token, vote in zip(whole.tokens[row], whole.votes[row], strict=True):
            dense[token] += vote
        assert dense == pytest.approx(expected, rel=1e-12)
        assert dense.sum() == pytest.approx(1.0)
        assert one.votes[row] + one.escape[row] * lm[target] == pytest.approx(expected[target])
        assert one.matched[row] == whole.matched[row] == matched
    assert whole.of(targets) == pytest.approx(one.votes)


def test_a_text_is_remembered_as_far_back_as_the_window() -> None:
    old, recent = np.full(10, 1, np.int32), np.full(WINDOW, 2, np.int32)
    text = np.concatenate([old, recent])
    made = cache_votes(text, np.array([0]), np.array([len(text)]), VOCABULARY)
    assert made.tokens[0, : made.counts[0]].tolist() == [2]
