"""Documents that another text has, against comparing them one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.analysis import duplicates, ngrams
from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.duplicates import (
    SoughtDocuments,
    covered_by,
    document_hashes,
    find_duplicates,
)
from retomaton_dist.storage.corpus import CorpusInMemory
from tests.analysis.oracle import grams, joined

DOCUMENTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=10), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks so small that documents straddle them, and short n-grams."""
    monkeypatch.setattr(ngrams, "BLOCK_TOKENS", 4)
    monkeypatch.setattr(duplicates, "NEAR_GRAM", 3)


def covered_slowly(document, known, n):
    """Whether each token is in an n-gram that is known."""
    return [
        any(
            tuple(document[first : first + n]) in known
            for first in range(max(0, place - n + 1), min(place, len(document) - n) + 1)
        )
        for place in range(len(document))
    ]


@given(text=DOCUMENTS, other=DOCUMENTS)
def test_same_and_near_documents_are_those_that_one_by_one_are(text, other):
    found = find_duplicates(joined(text), joined(other))
    known = {*grams(other, 3)}
    for number, document in enumerate(text):
        covered = covered_slowly(document, known, 3)
        enough = len(document) >= 3 and sum(covered) >= 0.8 * len(document)
        assert found.same[number] == (document in other)
        assert found.near[number] == (enough and document not in other)


@given(text=DOCUMENTS, other=DOCUMENTS, n=st.integers(1, 5))
def test_tokens_are_covered_by_ngrams_of_their_own_document(text, other, n):
    known = {*grams(other, n)}
    expected = [one for document in text for one in covered_slowly(document, known, n)]
    matched = ngrams.longest_matches(joined(text), joined(other))
    assert covered_by(matched, n).tolist() == expected


@given(text=DOCUMENTS, other=DOCUMENTS, cut=st.integers(0, 6), block=st.integers(1, 5))
def test_documents_of_a_corpus_are_found_in_units(text, other, cut, block):
    corpus = CorpusInMemory.of([np.array(one, np.int32) for one in other], 0, 3)
    sought, middle = SoughtDocuments(joined(text)), min(cut, len(other))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "BLOCK_DOCUMENTS", block)
        found = sought.look(corpus, 0, middle) | sought.look(corpus, middle, len(other))
    assert found.tolist() == [document in other for document in text]


@given(st.lists(st.lists(st.integers(0, 1), max_size=8), min_size=1, max_size=30))
def test_documents_have_one_hash_exactly_if_they_are_equal(documents):
    hashes = document_hashes(joined(documents)).tolist()
    assert len({*hashes}) == len({*map(tuple, documents)})
    assert [hashes[documents.index(document)] for document in documents] == hashes


def test_what_is_found_is_counted_in_documents_and_tokens():
    text = joined([[1, 2], [5, 5, 5, 5, 5], [7, 8, 9, 0, 1, 2]])
    found = find_duplicates(text, joined([[1, 2], [7, 8, 9, 0, 1, 3]]))
    facts = found.describe(np.diff(text.bounds), np.array([4, 6, 9]))
    assert facts == {
        "documents": 3, "tokens": 13, "same": [4], "same_tokens": 2, "near": [9], "near_tokens": 6,
    }  # fmt: skip


def test_some_documents_of_a_corpus_are_taken_with_all_their_tokens(tmp_path):
    from retomaton_dist.storage.store import Store, writing
    from tests.storage import make

    for prefix in (make.PREFIX, None):
        folder = tmp_path / str(prefix)
        with writing(folder) as writer:
            make.tokenize(writer, [[1, 2, 3], [4, 5], [6, 7, 8, 9]], prefix)
        found = TokensByDocument.of_documents(Store.open(folder).corpus(), [0, 2])
        assert found.tokens.tolist() == [1, 2, 3, 6, 7, 8, 9]
        assert found.bounds.tolist() == [0, 3, 7]
