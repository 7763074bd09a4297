"""What a document's entries are, and that each can be traced to its place in the source."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

import retomaton_dist as rd
from retomaton_dist.errors import CorpusError
from retomaton_dist.lm.identity import identify
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    CorpusSettings,
    ModelSettings,
    TokenizeSettings,
    WorkerSettings,
)
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.tokenize import plan_tokenize
from retomaton_dist.storage.store import writing
from tests.conftest import save_tiny_model

BYTE_OF = {character: byte for byte, character in bytes_to_unicode().items()}
WIKI = (
    "¡preamble!\r\n = Tōkyō = \r\n\r\n 🗼 and naïve 東京\n = = part = = \n = Empty = \n = Λ = \nend"
)


@pytest.fixture(scope="module")
def wiki_store(tiny_model, tmp_path_factory):
    """Articles of multi-byte text without an end token, from units smaller than an article."""
    folder = tmp_path_factory.mktemp("wiki")
    for name in ("a.txt", "b.txt"):
        (folder / name).write_bytes((WIKI + name).encode())
    chosen = {"split": "regex: = [^=]", "end": "none", "unit_bytes": 16}
    return rd.extract(
        folder / "wiki.store",
        corpus=folder / "*.txt",
        model=tiny_model,
        workers=0,
        progress="none",
        **chosen,
    )


@pytest.fixture(scope="module")
def bare_store(tmp_path_factory):
    """Records read by a model that has neither BOS nor EOS."""
    folder = tmp_path_factory.mktemp("bare")
    texts = ["walks", "", "x", " ", "\n\n", "東京 of the", "e"]
    lines = [json.dumps({"body": text}) for text in texts]
    (folder / "a.jsonl").write_text("\n".join(lines))
    model = save_tiny_model(folder / "model", end=None)
    return rd.extract(
        folder / "bare.store",
        corpus=folder / "a.jsonl",
        field="body",
        model=model,
        workers=0,
        progress="none",
    )


def tokenizer_of(store):
    return AutoTokenizer.from_pretrained(store.describe()["tokenizer"])


def ids_of(store, text):
    return tokenizer_of(store)(text, add_special_tokens=False).input_ids


def documents_of(store):
    """Values and pointers of each document."""
    values, pointers = store.values.compute(), store.pointers.compute()
    for document in store.documents:
        span = slice(document.first_entry, document.first_entry + document.length)
        yield document, values[span].tolist(), pointers[span].tolist()


def test_every_token_has_an_entry_and_eos_is_the_last_value(small_store, small_corpus):
    store = rd.open(small_store.path)
    tokenizer = tokenizer_of(store)
    lines = [line for line in small_corpus.read_text().splitlines() if line]
    expected = [[*ids, tokenizer.eos_token_id] for ids in tokenizer(lines).input_ids]
    assert [values for _, values, _ in documents_of(store)] == expected
    assert store.entries == sum(map(len, expected))


def test_empty_documents_are_skipped_and_counted(small_store, small_corpus, bare_store):
    blank = [line for line in small_corpus.read_text().splitlines() if not line]
    facts = rd.open(small_store.path).describe()
    assert facts["skipped_documents"] == len(blank) == 200
    assert facts["documents"] == 1800
    # Of the records three are blank, and two have one token, of which no entry can be made.
    assert bare_store.describe()["skipped_documents"] == 5


def test_without_an_end_every_value_is_a_token_of_the_text(wiki_store):
    texts = []
    for document, values, _ in documents_of(wiki_store):
        texts.append(tokenizer_of(wiki_store).decode(values))
        assert values == ids_of(wiki_store, texts[-1])
        assert document.name == texts[-1].split("\n")[0].strip()
    assert "".join(texts) == "".join(WIKI + name for name in ("a.txt", "b.txt"))


def test_a_model_with_neither_bos_nor_eos_gives_one_entry_less(bare_store):
    found = [values for _, values, _ in documents_of(bare_store)]
    assert found == [ids_of(bare_store, text)[1:] for text in ("walks", "東京 of the")]
    assert bare_store.describe()["stages"]["tokenize"]["config"]["prefix"] is None


@pytest.mark.parametrize("which", ["small", "wiki", "bare"])
def test_a_pointer_is_the_next_entry_of_the_document_or_minus_one_at_its_end(which, request):
    store = opened(which, request)
    first = 0
    for document, values, pointers in documents_of(store):
        assert document.first_entry == first
        assert len(values) == document.length
        assert pointers == [*range(first + 1, first + document.length), -1]
        first += document.length
    assert first == store.entries


def test_with_a_prefix_all_documents_begin_with_one_key(small_store, wiki_store):
    for store in (rd.open(small_store.path), wiki_store):
        first = [document.first_entry for document in store.documents]
        keys = store.rows(first).astype(np.float32)
        # Equal to rounding: batches of other shapes may sum in another order.
        np.testing.assert_allclose(keys, np.broadcast_to(keys[0], keys.shape), atol=2e-3)


def test_without_a_prefix_they_do_not(bare_store):
    first = [document.first_entry for document in bare_store.documents]
    assert not np.allclose(*bare_store.rows(first), atol=2e-3)


@pytest.mark.parametrize("which", ["small", "wiki"])
def test_every_entry_leads_to_the_bytes_of_its_token_in_the_source(which, request):
    store = opened(which, request)
    tokenizer = tokenizer_of(store)
    bytes_of = {path: Path(path).read_bytes() for path in {d.source for d in store.documents}}
    step = 7 if which == "small" else 1
    for number in range(0, store.entries, step):
        entry = store.entry(number)
        start = entry.document.offset + entry.place
        data = bytes_of[entry.source]
        if entry.value == tokenizer.eos_token_id:
            assert entry.pointer == -1
            assert data[start : start + 1] == b"\n"
        else:
            token = tokenizer.convert_ids_to_tokens(entry.value)
            text = bytes(BYTE_OF[character] for character in token)
            assert data[start : start + len(text)] == text


def test_an_entry_of_a_record_leads_to_its_place_in_the_field(bare_store):
    [_, document] = bare_store.documents
    text = "東京 of the".encode()
    data = Path(document.source).read_bytes()
    assert json.loads(data[document.offset :].split(b"\n")[0]) == {"body": text.decode()}
    ids = ids_of(bare_store, text.decode())
    for position in range(document.length):
        entry = bare_store.entry(document.first_entry + position)
        token = tokenizer_of(bare_store).convert_ids_to_tokens(entry.value)
        assert entry.value == ids[position + 1]
        assert text[entry.place : entry.place + len(token)] == bytes(map(BYTE_OF.get, token))


def test_documents_know_their_source_and_offset(wiki_store):
    found = [(Path(d.source).name, d.offset, d.name) for d in wiki_store.documents]
    titles = ["¡preamble!", "= Tōkyō =", "= Empty =", "= Λ ="]
    # The blank before a title belongs to its line.
    places = [max(WIKI.encode().index(title.encode()) - 1, 0) for title in titles]
    assert found == [
        (name, *pair) for name in ("a.txt", "b.txt") for pair in zip(places, titles, strict=True)
    ]


def opened(which, request):
    fixture = request.getfixturevalue(f"{which}_store")
    return rd.open(fixture.path)


def test_a_corpus_that_differs_where_a_unit_reads_it_leaves_no_store(tiny_model, tmp_path):
    """As on a host that has another file of the same size and time under the same path."""
    path, store = tmp_path / "a.txt", tmp_path / "a.store"
    path.write_text("one two\n")
    plan = plan_tokenize(
        store,
        CorpusSettings(corpus=(str(path),)),
        identify(ModelSettings(model=str(tiny_model))),
        TokenizeSettings(),
    )
    time = path.stat().st_mtime_ns
    path.write_text("one TWO\n")
    os.utime(path, ns=(time, time))
    with (
        pytest.raises(CorpusError, match="not the file that this run began with"),
        writing(store) as writer,
        Session(WorkerSettings(workers=0, progress="none")) as session,
    ):
        run_stage(writer, plan, session)
    assert not store.exists()
