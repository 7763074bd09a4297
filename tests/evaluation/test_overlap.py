"""The stage `overlap`: what a text shares with a corpus, found in units and kept with the text."""

import numpy as np
import pytest

from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import longest_matches
from retomaton_dist.errors import DamagedStore, NotAStore
from retomaton_dist.evaluation import overlap
from retomaton_dist.evaluation.overlap import ChosenText, CorpusOverlap, OverlapPlan
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.storage.corpus import TOKENS
from retomaton_dist.storage.store import Store, writing
from tests.storage import make

HERE = WorkerSettings(workers=0, progress="none")
CHOSEN = [0, 2, 3]


def tokenised(path, seed, count, prefix):
    """Documents of few tokens, so that they often share some."""
    random = np.random.default_rng(seed)
    documents = [random.integers(0, 3, random.integers(2, 30)).tolist() for _ in range(count)]
    with writing(path) as writer:
        make.tokenize(writer, [[1, 2, 1, 2, 0], *documents], prefix)
    return Store.open(path)


@pytest.fixture(params=[make.PREFIX, None], ids=["prefix", "no prefix"])
def stores(request, tmp_path):
    """A text and a corpus, whose first documents are the same."""
    corpus = tokenised(tmp_path / "corpus.store", 1, 40, request.param)
    return tokenised(tmp_path / "text.store", 2, 6, request.param), corpus


def look(text, corpus):
    """Run the stage in this process; return its digest."""
    plan = OverlapPlan(corpus, ChosenText(text, CHOSEN))
    with writing(text.path) as writer, Session(HERE) as session:
        return run_stage(writer, plan, session).digest


def damage(corpus):
    """Alter a token."""
    data = bytearray((corpus.path / TOKENS).read_bytes())
    data[len(data) // 2] ^= 1
    (corpus.path / TOKENS).write_bytes(data)


def test_what_is_kept_is_what_comparing_both_in_memory_finds(stores, monkeypatch):
    monkeypatch.setattr(overlap, "UNIT_TOKENS", 37)
    text, corpus = stores
    look(text, corpus)
    kept = CorpusOverlap.of(Store.open(text.path))
    chosen = TokensByDocument.of_documents(text.corpus(), CHOSEN)
    tokens = corpus.corpus().tokens
    whole = TokensByDocument.of_stretch(corpus.corpus(), 0, len(tokens))
    assert np.array_equal(kept.matched, longest_matches(chosen, whole))
    assert kept.frequency.tolist() == [(tokens == token).sum() for token in chosen.tokens]
    assert kept.documents.tolist() == CHOSEN
    assert kept.same.tolist() == [True, False, False]


def test_evaluated_rows_are_found_among_the_tokens(stores):
    text, corpus = stores
    look(text, corpus)
    words, kept = text.corpus(), CorpusOverlap.of(Store.open(text.path))
    document = np.repeat(CHOSEN, words.lengths[CHOSEN]).astype(np.int32)
    position = np.concatenate([np.arange(words.lengths[one]) for one in CHOSEN]).astype(np.int32)
    places = kept.places(Store.open(text.path), document, position)
    rows = [words.values(words.first_entries[one], words.first_entries[one] + words.lengths[one])
            for one in CHOSEN]  # fmt: skip
    found = TokensByDocument.of_documents(words, CHOSEN).tokens[places]
    assert np.array_equal(found, np.concatenate(rows))


def test_bytes_do_not_depend_on_the_units_and_a_second_run_looks_for_nothing(stores, monkeypatch):
    text, corpus = stores
    large = look(text, corpus)
    with writing(text.path) as writer:
        writer.abandon("overlap")
    monkeypatch.setattr(overlap, "UNIT_TOKENS", 11)
    assert look(text, corpus) == large
    assert not (text.path / "overlap/parts").exists()
    damage(corpus)
    assert look(text, corpus) == large, "the corpus is not read"


def test_a_corpus_that_was_altered_is_refused(stores):
    text, corpus = stores
    damage(corpus)
    with pytest.raises(DamagedStore, match="altered"):
        look(text, corpus)


def test_a_text_that_was_not_compared_says_what_to_do(stores):
    with pytest.raises(NotAStore, match="run the same evaluation again"):
        CorpusOverlap.of(stores[0])
