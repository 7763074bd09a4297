"""The whole analysis of a walk, over corpora with and without a prefix."""

import numpy as np
import pytest

from retomaton_dist.analysis.analyse import Analysis
from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import longest_matches
from retomaton_dist.engine.scores import Scores
from retomaton_dist.storage.scores import ScoreWriter
from retomaton_dist.storage.store import Store, writing
from tests.storage import make

SHARED = list(range(10, 30))
CORPUS = [[1, 2, 3], [4, *SHARED, 5, 6]]
TEXT = [[7, 8], [9, 40, *SHARED, 41], [42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53]]


def opened(folder, documents, prefix):
    with writing(folder) as writer:
        make.tokenize(writer, documents, prefix)
    return Store.open(folder).corpus()


def scored(path, text, searched):
    """Scores of all entries of a text, as a pass leaves them."""
    rows = text.entries
    document = np.repeat(np.arange(len(text)), text.lengths).astype(np.int32)
    position = (np.arange(rows) - text.first_entries[document]).astype(np.int32)
    columns = {
        "document": document,
        "position": position,
        "token": text.values(0, rows),
        "kmeans@4.sums": np.zeros((rows, 4), np.float32),
        "kmeans@4.favoured": np.zeros((rows, 2), np.float32),
        "kmeans@4.searched": searched,
        "kmeans@4.nearest": np.zeros(rows, np.float32),
        **{
            f"kmeans@4.{name}": np.ones(rows, np.int32)
            for name in ("matched", "states", "candidates", "pointed")
        },
    }
    with ScoreWriter(path, {"temperatures": [1.0], "walks": ["kmeans@4"]}) as writer:
        writer.write(columns)
    return Scores((path,))


def shared(scores, text, corpus):
    """What each row shares with the corpus, of documents with all their tokens."""
    whole = TokensByDocument.of_stretch(text, 0, len(text.tokens))
    other = TokensByDocument.of_stretch(corpus, 0, len(corpus.tokens))
    places = whole.bounds[scores.document] + text.unpredicted + scores.position
    return longest_matches(whole, other)[places], np.ones(len(places), np.int64)


def spelled(tokens):
    return " ".join(map(str, tokens))


@pytest.fixture(params=[make.PREFIX, None], ids=["prefix", "no prefix"])
def made(request, tmp_path):
    """The two corpora, and a walk that searched at every document's start and for token 40."""
    text = opened(tmp_path / "text", TEXT, request.param)
    corpus = opened(tmp_path / "corpus", CORPUS, request.param)
    searched = text.values(0, text.entries) == 40
    searched[text.first_entries] = True
    return text, corpus, searched, scored(tmp_path / "scores.parquet", text, searched)


def analysed(made):
    text, corpus, searched, scores = made
    found = Analysis(scores, text, corpus, *shared(scores, text, corpus), {})
    walk = found.walk("kmeans@4", searched, np.full(len(scores), -0.5), spelled)
    return {**walk, "overlap": found.overlap}


def test_the_longest_passage_is_found_with_its_place_and_its_source(made):
    corpus = made[1]
    passage = analysed(made)["passage"]
    assert passage["tokens"] == len(SHARED) + 1
    evaluated, source = passage["evaluated"], passage["source"]
    assert evaluated["text"] == spelled([*SHARED, 41])
    assert (evaluated["before"], evaluated["after"]) == ("9 40", "")
    assert (evaluated["document"], evaluated["byte_in_document"]) == ("document 1", 3 * 2)
    assert (source["text"], source["tokens"]) == (spelled(SHARED), len(SHARED))
    assert (source["before"], source["after"]) == ("4", "5 6")
    assert (source["document"], source["file"]) == ("document 1", "/text/b.txt")
    assert (source["document_offset"], source["byte_in_document"]) == (100, 3)
    assert corpus.values(source["entry"], source["entry"] + 3).tolist() == SHARED[:3]


def test_long_sequences_are_listed_only_if_the_corpus_lacks_them(made):
    found = analysed(made)["sequences"]
    assert [*found] == ["3", "6", "10"]
    listed = [one["text"] for one in found["10"]]
    assert spelled([*SHARED[-9:], 41]) in listed
    assert spelled(SHARED[:10]) not in listed
    assert any(one["text"] == spelled(SHARED[:6]) for one in found["6"])
    assert all(one["probability"] == pytest.approx(np.exp(-1.5)) for one in found["3"])


def test_runs_and_overlap_are_of_the_evaluated_rows(made):
    text, _, searched, _ = made
    found = analysed(made)
    assert found["walk"] == "kmeans@4"
    assert found["runs"]["tokens"] == text.entries
    assert found["runs"]["runs"] == searched.sum()
    assert found["runs"]["foss"] == pytest.approx(1 - searched.mean())
    assert [row["n"] for row in found["overlap"]] == [*range(1, 11)]
    assert found["overlap"][9]["occurrences_seen"] == len(SHARED) - 9


def test_a_walk_that_always_searches_captures_nothing(tmp_path):
    text = opened(tmp_path / "text", TEXT, make.PREFIX)
    scores = scored(tmp_path / "scores.parquet", text, np.ones(text.entries, np.bool_))
    searched = scores.searched("kmeans@4")
    found = Analysis(scores, text, text, *shared(scores, text, text), {}).walk(
        "kmeans@4", searched, np.zeros(len(scores)), spelled
    )
    assert found["passage"] is None
    assert found["sequences"] == {"3": [], "6": [], "10": []}
    assert found["runs"]["share_longer_than_1"] == 0


def test_a_passage_that_shares_no_token_with_the_corpus_has_no_source(tmp_path):
    text = opened(tmp_path / "text", [[7, 8, 9]], make.PREFIX)
    corpus = opened(tmp_path / "corpus", [[1, 2]], make.PREFIX)
    scores = scored(tmp_path / "scores.parquet", text, np.array([True, False, False]))
    searched = scores.searched("kmeans@4")
    made = Analysis(scores, text, corpus, *shared(scores, text, corpus), {})
    found = made.walk("kmeans@4", searched, np.zeros(3), spelled)
    passage = found["passage"]
    assert (passage["tokens"], passage["source"]) == (2, None)
