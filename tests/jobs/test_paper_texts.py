"""Corpora drawn from the data folder, and data folders that lack something."""

import pytest

from retomaton_dist.corpus.documents import read_texts
from retomaton_dist.errors import BadInput
from retomaton_dist.jobs.paper_curves import PAPER
from retomaton_dist.jobs.reproduce_paper import check_text, draw_corpus
from retomaton_dist.settings import CorpusSettings
from tests.jobs.paper_data import write_data

LAW, WIKI = PAPER["texts"]["law"], PAPER["texts"]["wiki"]


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data")


@pytest.mark.parametrize("most", [None, 10**9])
def test_a_corpus_that_is_small_enough_is_the_file_itself(data, tmp_path, most):
    assert draw_corpus(LAW, data, most, tmp_path / "text") == data / "law/train.en"
    assert not (tmp_path / "text").exists()


def test_documents_are_drawn_whole_and_keep_their_order(data, tmp_path):
    lines = (data / "law/train.en").read_text().splitlines()
    drawn = draw_corpus(LAW, data, 1000, tmp_path / "text").read_text().splitlines()
    places = [lines.index(line) for line in drawn]
    assert places == sorted(places)
    assert 800 < sum(len(line.encode()) + 1 for line in drawn) <= 1000


def test_articles_are_drawn_whole(data, tmp_path):
    drawn, whole = (
        {*read_texts(CorpusSettings(corpus=(str(path),), split=WIKI["split"]))}
        for path in (
            draw_corpus(WIKI, data, 3000, tmp_path / "text"),
            data / "wikitext-2/train.txt",
        )
    )
    assert 10 < len(drawn) < len(whole)
    assert drawn < whole


def test_a_smaller_draw_is_part_of_a_larger_one(data, tmp_path):
    small, large = (
        {*draw_corpus(LAW, data, most, tmp_path / "text").read_text().splitlines()}
        for most in (500, 1500)
    )
    assert small < large


def test_a_missing_or_empty_part_is_refused_by_its_name(data):
    (data / "law/test.en").write_text("")
    (data / "wikitext-2/valid.txt").unlink()
    with pytest.raises(BadInput, match=r"law/test\.en is empty"):
        check_text(LAW, data)
    with pytest.raises(BadInput, match=r"valid\.txt: no such file; --data needs wikitext-2/"):
        check_text(WIKI, data)
