"""The longest stretch that a passage shares with a corpus, against sets of tuples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.analysis import ngrams
from retomaton_dist.analysis.passage import longest_match
from retomaton_dist.storage.corpus import CorpusInMemory
from tests.analysis.oracle import grams, joined, longest_common

TEXTS = st.lists(st.lists(st.integers(0, 2), max_size=15), min_size=1, max_size=4)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(ngrams, "BLOCK_TOKENS", 4)


@given(
    passage=st.lists(st.integers(0, 2), min_size=1, max_size=20),
    documents=TEXTS,
    longest=st.integers(1, 8),
)
def test_the_longest_match_is_as_long_as_any_and_equal_in_both(passage, documents, longest):
    documents = [document for document in documents if document] or [[9]]
    corpus = joined(documents)
    whole = CorpusInMemory.of([np.array(one, np.int32) for one in documents], 0, 3)
    length = longest_common(passage, documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "LONGEST", longest)
        shared = min(length, longest)
        match = longest_match(np.array(passage, np.int32), whole, shared) if shared else None
    assert (match.length if match else 0) == length
    if match:
        mine = passage[match.in_passage : match.in_passage + length]
        theirs = corpus.tokens[match.in_corpus : match.in_corpus + length].tolist()
        assert mine == theirs
        assert tuple(theirs) in {*grams(documents, length)}
        assert corpus.room(match.in_corpus, match.in_corpus + 1)[0] >= length
        known = {*grams([passage], length)}
        assert not any(
            tuple(corpus.tokens[first : first + length].tolist()) in known
            and corpus.room(first, first + 1)[0] >= length
            for first in range(match.in_corpus)
        ), "the first in the corpus"
        assert passage.index(mine[0]) <= match.in_passage
