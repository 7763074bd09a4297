"""n-gram overlap against sets of tuples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.analysis import ngrams
from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import (
    GramHashes,
    SoughtText,
    longest_matches,
    overlap_counts,
)
from retomaton_dist.storage.corpus import CorpusInMemory
from tests.analysis.oracle import grams, joined

# Few tokens, so that n-grams often meet; empty documents are allowed.
TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=5)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks so small that n-grams straddle them."""
    monkeypatch.setattr(ngrams, "BLOCK_TOKENS", 5)


def counts(text, corpus):
    """How many n-grams both have."""
    return overlap_counts(joined(text), longest_matches(joined(text), joined(corpus)))


@given(text=TEXTS, corpus=TEXTS)
def test_overlap_counts_types_and_occurrences_as_sets_of_tuples_do(text, corpus):
    for row in counts(text, corpus):
        mine, known = grams(text, row["n"]), {*grams(corpus, row["n"])}
        assert row["types"] == len({*mine})
        assert row["types_seen"] == len({*mine} & known)
        assert row["occurrences"] == len(mine)
        assert row["occurrences_seen"] == sum(gram in known for gram in mine)


@given(text=TEXTS, corpus=TEXTS)
def test_matches_end_with_each_token_and_are_the_longest(text, corpus):
    found = longest_matches(joined(text), joined(corpus)).tolist()
    expected = [
        max(
            (
                n
                for n in range(1, min(place + 1, ngrams.LONGEST) + 1)
                if tuple(document[place + 1 - n : place + 1]) in {*grams(corpus, n)}
            ),
            default=0,
        )
        for document in text
        for place in range(len(document))
    ]
    assert found == expected


def test_ngrams_do_not_cross_the_end_of_a_document():
    assert counts([[1, 2]], [[1], [2]])[1]["types_seen"] == 0
    assert counts([[1], [2]], [[1, 2]])[1]["occurrences"] == 0


FULL = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=12), min_size=1, max_size=5)


@given(text=FULL, corpus=FULL, unit=st.integers(1, 40), prefix=st.sampled_from([0, None]))
def test_units_find_together_what_one_reading_finds(text, corpus, unit, prefix):
    opened = CorpusInMemory.of([np.array(one, np.int32) for one in corpus], prefix, 4)
    sought, total = SoughtText(joined(text)), len(opened.tokens)
    met = sought.nothing()
    for first in range(0, total, unit):
        found, last = sought.nothing(), min(first + unit, total)
        reached = min(last + ngrams.LONGEST, total)
        stretch = TokensByDocument.of_stretch(opened, first, reached)
        sought.look(stretch, last - first, found)
        met.add(found)
    expected = longest_matches(joined(text), joined(corpus))
    assert np.array_equal(sought.matched(met), expected)
    everything = [token for document in corpus for token in document]
    assert sought.frequency(met).tolist() == [
        everything.count(token) for document in text for token in document
    ]


@given(st.lists(st.integers(0, 1), min_size=1, max_size=64), st.integers(1, 20))
def test_different_ngrams_have_different_hashes(tokens, n):
    hashes = GramHashes(np.array(tokens, np.int32)).whole(n)
    assert len(hashes) == max(0, len(tokens) - n + 1)
    assert len({*hashes.tolist()}) == len({*grams([tokens], n)})


def test_positions_left_out_of_a_document_cut_it():
    document = np.array([0, 0, 0, 2, 2], np.int32)
    position = np.array([0, 1, 5, 0, 1], np.int32)
    found = TokensByDocument.of_rows(document, position, np.arange(5, dtype=np.int32))
    assert found.bounds.tolist() == [0, 2, 3, 5]
