"""The tokenised corpus against an obvious loop over documents."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.storage import columns, corpus
from retomaton_dist.storage.corpus import Corpus, Document
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.store import Store
from tests.storage import make
from tests.storage.conftest import run_script
from tests.storage.make import Oracle

TOKENS = st.integers(0, make.VOCABULARY - 1)


def merged(folder, documents, prefix, units):
    """The corpus as so many units of tokenizing leave it."""
    for unit, numbers in enumerate(np.array_split(np.arange(len(documents)), units)):
        part = [make.tokenised(number, documents[number], prefix) for number in numbers]
        corpus.write_part(folder, unit, part)
    corpus.merge(folder, units)
    corpus.write_sources(folder, make.SOURCES)
    return Corpus(folder, prefix, make.VOCABULARY)


@st.composite
def corpora(draw):
    """Documents, the prefix or None, and a number of units; units may stay empty."""
    prefix = draw(st.sampled_from([None, make.PREFIX]))
    least = 1 if prefix is not None else 2
    documents = draw(st.lists(st.lists(TOKENS, min_size=least, max_size=9), min_size=1, max_size=6))
    return documents, prefix, draw(st.integers(1, 4))


@given(made=corpora(), data=st.data())
def test_a_corpus_equals_a_loop_over_its_documents(tmp_path_factory, made, data):
    documents, prefix, units = made
    words = merged(tmp_path_factory.mktemp("corpus"), documents, prefix, units)
    oracle = Oracle.of(documents, prefix)
    count = len(oracle.values)
    assert (len(words), words.entries) == (len(documents), count)
    assert words.tokens.tolist() == [token for document in documents for token in document]
    assert words.first_entries.tolist() == oracle.first
    assert words.lengths.tolist() == [len(read) for read in oracle.inputs]
    assert [words.document_of(entry) for entry in range(count)] == oracle.document
    first, last = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    assert words.values(first, last).tolist() == oracle.values[first:last]
    assert words.pointers(first, last).tolist() == oracle.pointers[first:last]
    for number, read in enumerate(oracle.inputs):
        start, stop = sorted(data.draw(st.lists(st.integers(0, len(read)), min_size=2, max_size=2)))
        assert words.inputs(number, 0, len(read)).tolist() == read
        if start < stop:
            assert words.inputs(number, start, stop).tolist() == read[start:stop]
        begin = words.first_token(number)
        assert words.tokens[begin : begin + len(documents[number])].tolist() == documents[number]
        assert words.token_offsets[begin] == 0


def test_values_and_pointers_have_the_types_of_the_datastore(tmp_path):
    words = merged(tmp_path, [[1, 2], [3]], make.PREFIX, 1)
    assert words.values(0, 3).dtype == np.int32
    assert words.pointers(0, 3).dtype == np.int64
    assert words.inputs(0, 0, 2).dtype == words.inputs(0, 1, 2).dtype == np.int32


def test_a_document_knows_its_entries_and_its_place_in_the_source(tmp_path):
    words = merged(tmp_path, [[1, 2], [3], [4, 5, 6]], make.PREFIX, 2)
    assert list(words) == [
        Document(0, "document 0", 0, 2, "/text/a.txt", 0),
        Document(1, "document 1", 2, 1, "/text/b.txt", 100),
        Document(2, "document 2", 3, 3, "/text/a.txt", 200),
    ]
    with pytest.raises(IndexError):
        words[3]


def test_a_corpus_does_not_depend_on_how_many_units_made_it(tmp_path):
    documents = make.sample_documents(300)
    digests = set()
    for units in (1, 2, 7):
        merged(tmp_path / str(units), documents, make.PREFIX, units)
        names = (corpus.TOKENS, corpus.DOCUMENTS)
        digests.add(tuple((tmp_path / str(units) / name).read_bytes() for name in names))
    assert len(digests) == 1


def test_a_corpus_that_is_sent_elsewhere_maps_its_files_there(sample):
    words = Store.open(sample).corpus()
    assert words.tokens[0] == 3
    sent = pickle.dumps(words)
    assert len(sent) < 1000
    assert pickle.loads(sent).tokens.tolist() == words.tokens.tolist()


@pytest.mark.parametrize("name", [corpus.TOKENS, corpus.DOCUMENTS, corpus.SOURCES])
def test_a_missing_truncated_or_foreign_file_is_damage(store_copy, name):
    path = store_copy / name
    other = corpus.DOCUMENTS if name != corpus.DOCUMENTS else corpus.TOKENS
    whole, foreign = path.read_bytes(), (store_copy / other).read_bytes()

    def read():
        words = Store.open(store_copy).corpus()
        return words.tokens, words[0]

    read()
    for damaged in (whole[:-1], whole[:100], b"", foreign):
        path.write_bytes(damaged)
        with pytest.raises(DamagedStore, match=path.name):
            read()
    path.unlink()
    with pytest.raises(DamagedStore, match=path.name):
        read()


def test_a_corpus_without_documents_is_damage(tmp_path):
    empty = corpus.DOCUMENT_SCHEMA.empty_table().to_batches() or [
        columns.pa.RecordBatch.from_pylist([], schema=corpus.DOCUMENT_SCHEMA)
    ]
    columns.write_batch(tmp_path / corpus.DOCUMENTS, empty[0])
    with pytest.raises(DamagedStore, match="is empty"):
        len(Corpus(tmp_path, None, 1))


@pytest.mark.parametrize("name", [corpus.TOKENS, corpus.DOCUMENTS, corpus.SOURCES])
def test_no_flipped_bit_crashes_a_reader_or_leads_it_out_of_the_file(tmp_path, name):
    """Every seventh bit of the file, in a process of its own: a crash would end it."""
    merged(tmp_path, [[1, 2], [3], [4, 5, 6]], make.PREFIX, 1)
    before = (tmp_path / name).read_bytes()
    ended = run_script(
        f"""
        from retomaton_dist.storage.corpus import Corpus
        from retomaton_dist.storage.errors import DamagedStore
        path = folder / {name!r}
        whole = path.read_bytes()
        for bit in range(0, 8 * len(whole), 7):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            path.unlink()
            path.write_bytes(damaged)
            words = Corpus(folder, 96, 97)
            try:
                words.tokens.sum(), words.token_offsets.sum(), words.lengths.sum()
                for document in range(3): words[document]
            except DamagedStore:
                pass
        path.write_bytes(whole)
        """,
        tmp_path,
    )
    assert ended == ""
    assert (tmp_path / name).read_bytes() == before
