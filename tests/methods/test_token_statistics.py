"""What the corpus says about its tokens, counted with dicts."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.methods import token_statistics
from retomaton_dist.methods.token_statistics import TokenStatistics, count_pairs, count_ways
from retomaton_dist.storage.corpus import Corpus

VOCABULARY = 5
documents = st.lists(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8), min_size=1, max_size=8
)


def in_memory(listed, prefix):
    """A corpus of these documents; without a prefix their first tokens have no entry."""
    unpredicted = 0 if prefix is not None else 1
    lengths = np.array([len(tokens) - unpredicted for tokens in listed])
    made = Corpus("nowhere", prefix, VOCABULARY)
    made.__dict__["tokens"] = np.concatenate([np.array(tokens, np.int32) for tokens in listed])
    made.__dict__["lengths"] = lengths
    made.__dict__["first_entries"] = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return made


@given(documents, st.integers(1, 7), st.integers(1, 20), st.booleans())
def test_counts_are_those_of_dicts_whatever_the_blocks_and_units(listed, block, unit, prefixed):
    listed = listed if prefixed else [[0, *tokens] for tokens in listed]
    corpus = in_memory(listed, 0 if prefixed else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_statistics, "BLOCK", block)
        cuts = range(0, corpus.entries, unit)
        parts = [count_pairs(corpus, cut, min(cut + unit, corpus.entries)) for cut in cuts]
        ways_found = count_ways([pairs for _, pairs in parts], VOCABULARY)
    followed = sum(counts for counts, _ in parts)
    found = TokenStatistics.of_counts(followed, ways_found, VOCABULARY)
    seen, ways = defaultdict(int), defaultdict(set)
    for tokens in listed:
        before = VOCABULARY
        for token in tokens if prefixed else tokens[1:]:
            seen[before] += 1
            ways[before].add(token)
            before = token
    every = range(VOCABULARY + 1)
    assert found.frequencies == pytest.approx(np.log1p([seen[token] for token in every]))
    assert found.fertilities == pytest.approx(np.log1p([len(ways[token]) for token in every]))


def test_tokens_that_the_model_alone_knows_are_never_followed_and_the_start_stays_last():
    found = TokenStatistics.of_counts(np.array([1, 2, 3]), np.array([1, 1, 2]), 4)
    assert found.frequencies == pytest.approx(np.log1p([1, 2, 0, 0, 3]))
    assert found.of(np.array([-1, 0, 3])) == pytest.approx(np.log1p([[3, 2], [1, 1], [0, 0]]))
