"""The n-gram model: equal to an oracle of plain dictionaries, whatever the documents."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.automaton import ngram_counts
from retomaton_dist.automaton.ngrams import NGrams, discounts_of
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.errors import BadInput
from tests.automaton.ngram_oracle import BOS, SlowNGrams, chen_goodman
from tests.automaton.suffix_oracle import before_of

VOCABULARY = 6
# The last token occurs in no document.
TOKENS = st.integers(0, VOCABULARY - 2)


@st.composite
def oracles(draw, most=40):
    unpredicted, order = draw(st.integers(0, 1)), draw(st.integers(2, 8))
    some = draw(st.lists(st.lists(TOKENS, min_size=1 + unpredicted, max_size=most), min_size=1))
    # Discounts come of counts that repeat.
    return SlowNGrams(some * draw(st.integers(1, 3)), VOCABULARY, order, unpredicted)


@st.composite
def contexts_for(draw, oracle):
    """Contexts, oldest first: pieces of documents, and tokens at random, from BOS on or not."""
    document = [BOS, *draw(st.sampled_from(oracle.documents))]
    last = draw(st.integers(1, len(document)))
    piece = document[max(0, last - draw(st.integers(0, 10))) : last]
    random = draw(st.lists(st.integers(0, VOCABULARY - 1), max_size=10))
    return draw(st.sampled_from([piece, random, [BOS, *random]]))


def make(oracle, scanned=ngram_counts.SCANNED):
    values = [token for document in oracle.documents for token in document[oracle.unpredicted :]]
    before = before_of(oracle.documents, oracle.unpredicted)
    suffixes = Suffixes.of(before, oracle.vocabulary, oracle.order - 1)
    return NGrams.of(suffixes, np.array(values, np.int32), oracle.order, scanned)


def recent_of(context, width):
    """A row of recent tokens. What is not known of a text must not look like its beginning."""
    row = list(reversed(context))
    cut = [*row, *([-1] if BOS in row else [VOCABULARY - 1])]
    return np.array([(cut + [-1] * width)[:width]], np.int32)


def check_equal(model, oracle, contexts):
    for context in contexts:
        expected, known = oracle.p(context)
        recent = recent_of(context, oracle.order - 1)
        found = model.distributions(recent)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert found.min() > 0
        assert math.isclose(found.sum(), 1, abs_tol=1e-12)
        rows = np.repeat(recent, oracle.vocabulary, axis=0)
        log_p, lengths = model.log_p(rows, np.arange(oracle.vocabulary, dtype=np.int32))
        np.testing.assert_allclose(np.exp(log_p), found, rtol=1e-14)
        assert (lengths == known).all()


@given(st.data(), st.sampled_from([1, 3, 64]))
def test_probabilities_equal_the_oracle(data, scanned):
    oracle = data.draw(oracles())
    contexts = data.draw(st.lists(contexts_for(oracle), min_size=1, max_size=6))
    check_equal(make(oracle, scanned), oracle, contexts)


@pytest.mark.parametrize("order", [2, 3, 5, 8])
@pytest.mark.parametrize("unpredicted", [0, 1])
def test_many_documents_have_discounts_of_their_own(order, unpredicted):
    random = np.random.default_rng(order)
    phrases = [random.integers(0, 99, length).tolist() for length in random.integers(2, 7, 60)]
    chosen = [random.zipf(1.5, length) % len(phrases) for length in random.integers(1, 30, 150)]
    documents = [[token for phrase in some for token in phrases[phrase]] for some in chosen]
    oracle = SlowNGrams(documents, 100, order, unpredicted)
    model = make(oracle, scanned=10)
    assert oracle.discounts[-1] != chen_goodman(0, 0, 0, 0)
    assert len(model.columns.nodes) > 10
    check_equal(model, oracle, [[BOS, *document][:9] for document in documents[:40]])


@given(st.data())
def test_a_model_does_not_depend_on_blocks(data):
    oracle = data.draw(oracles())
    whole = make(oracle, scanned=2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ngram_counts, "BLOCK", data.draw(st.integers(1, 9)))
        parts = make(oracle, scanned=2)
    for name, column in whole.columns._asdict().items():
        assert np.array_equal(getattr(parts.columns, name), column), name
    assert np.array_equal(parts.unigrams, whole.unigrams)
    assert np.array_equal(parts.counted, whole.counted)


@given(st.data())
def test_rows_do_not_depend_on_those_that_are_looked_up_with_them(data):
    oracle = data.draw(oracles())
    contexts = data.draw(st.lists(contexts_for(oracle), min_size=1, max_size=40))
    model = make(oracle, scanned=3)
    rows = np.concatenate([recent_of(context, oracle.order - 1) for context in contexts])
    together = model.distributions(rows)
    for row in range(len(rows)):
        assert np.array_equal(model.distributions(rows[row : row + 1])[0], together[row])


def test_rows_that_are_longer_than_the_order_are_cut():
    model = make(SlowNGrams([[1, 2, 3, 1, 2, 4]], VOCABULARY, 3))
    wide = np.array([[2, 1, 3, 2]], np.int32)
    assert np.array_equal(model.distributions(wide), model.distributions(wide[:, :2]))


def test_where_a_document_begins_is_part_of_the_context():
    model = make(SlowNGrams([[1, 2], [1, 2], [3, 1, 4]], VOCABULARY, 3))
    recent = np.array([[1, -1], [1, 3], [1, 2]], np.int32)
    lengths = model.log_p(recent, np.array([2, 4, 2], np.int32))[1]
    assert lengths.tolist() == [2, 2, 1]
    assert model.distributions(recent).argmax(axis=1).tolist()[:2] == [2, 4]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([16, 4, 2, 1], (2 / 3, 1.0, 5 / 3)),
        ([16, 4, 2, 0], (2 / 3, 1.0, 3.0)),
        ([8, 2, 0, 5], (0.5, 1.0, 1.5)),
        ([0, 2, 2, 5], (0.5, 1.0, 1.5)),
        ([8, 2, 3, 1], (0.5, 1.0, 1.5)),
        ([8, 2, 2, 1], (0.5, 1.0, 1.5)),
    ],
    ids=["by the counts", "none of four", "none of three", "none of one", "below zero", "zero"],
)
def test_discounts_are_chen_and_goodmans_where_these_are_sound(counts, expected):
    assert discounts_of(counts) == pytest.approx(expected)


@pytest.mark.parametrize("order", [1, 5])
def test_an_order_that_the_suffix_index_does_not_allow_is_refused(order):
    suffixes = Suffixes.of(before_of([[1, 2, 3]]), VOCABULARY, 3)
    with pytest.raises(BadInput, match=rf"order {order}: .* up to 3 tokens allows 2 to 4; `retom"):
        NGrams.of(suffixes, np.array([1, 2, 3], np.int32), order)


def test_what_cannot_be_looked_up_is_refused():
    model = make(SlowNGrams([[1, 2, 3]], VOCABULARY, 3))
    rows = np.zeros((2, 2), np.int32)
    with pytest.raises(BadInput, match="rows of 2 needed"):
        model.distributions(rows[:, :1])
    with pytest.raises(BadInput, match="3 targets for 2 rows"):
        model.log_p(rows, np.zeros(3, np.int32))
    with pytest.raises(BadInput, match=r"a target is outside 0\.\.5"):
        model.log_p(rows, np.array([0, 6], np.int32))
    with pytest.raises(BadInput, match=r"token of the corpus is outside 0\.\.5"):
        NGrams.of(model.suffixes, np.array([1, 2, 6], np.int32), 3)


@pytest.mark.parametrize("name", ["followers", "shared", "nodes", "lists"])
def test_damage_never_reads_or_writes_outside(name):
    model = make(SlowNGrams([[1, 2, 3, 1, 2, 0]] * 9, VOCABULARY, 4), scanned=4)
    column = getattr(model.columns, name)
    recent = np.array([[2, 1, -1], [3, 2, 1], [1, 3, 2]], np.int32)
    for wrong in (np.roll(column, 5), column[::-1], column * 40, column - 3):
        damaged = model.columns._replace(**{name: wrong.astype(column.dtype)})
        other = NGrams(model.suffixes, damaged, model.unigrams, model.counted, model.scanned)
        assert other.distributions(recent).shape == (3, VOCABULARY)
        assert other.log_p(recent, np.array([1, 2, 3], np.int32))[0].shape == (3,)
