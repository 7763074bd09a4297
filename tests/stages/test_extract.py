"""Keys are what the model itself gives, values and pointers follow the text, bytes never vary."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import retomaton_dist as rd
from retomaton_dist.errors import BadInput, ClusterError, ConfigMismatch, ModelError
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.model_reader import WindowReader
from retomaton_dist.settings import ModelSettings
from retomaton_dist.stages.extract import KeyReader
from retomaton_dist.storage import records
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import verify
from tests.conftest import CHUNK_ENTRIES, TEXT, TINY_CONTEXT, contents, save_tiny_model

CONTEXT, STRIDE, BATCH_TOKENS = 48, 20, 300
# What two orders of the same float32 sums, rounded to float16, may differ by.
ROUNDING = {"rtol": 2e-3, "atol": 2e-3}


def write_documents(folder):
    """Files of one word, of some words, and of many times the context, in mixed order."""
    chosen = random.Random(5)
    for number in range(40):
        words = chosen.choice([1, 3, 6, 9, 150])
        text = " ".join(chosen.choices(TEXT.split(), k=words))
        (folder / f"{number:02d}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def mixed(tiny_model, tmp_path_factory):
    """A store of short and long documents, cut into windows and units in the middle of them."""
    folder = write_documents(tmp_path_factory.mktemp("documents"))
    return rd.extract(
        tmp_path_factory.mktemp("store") / "mixed.store",
        corpus=str(folder),
        model=str(tiny_model),
        context=CONTEXT,
        stride=STRIDE,
        batch_tokens=BATCH_TOKENS,
        chunk_entries=CHUNK_ENTRIES,
        workers=0,
        progress="none",
    )


@pytest.fixture(scope="module")
def oracle(tiny_model):
    """The keys of one input, from transformers alone: one row, no padding, nothing stopped."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    torch.set_num_threads(1)

    def keys(inputs):
        seen = []
        block = model.transformer.h[-1].mlp
        handle = block.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        with torch.inference_mode():
            model(torch.tensor([inputs]))
        handle.remove()
        return seen[0][0].numpy()

    return keys


def tokens_of(store, tiny_model):
    """The tokens of every document, its end included, by the tokenizer alone."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    texts = [Path(document.source).read_text() for document in store.documents]
    return [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in texts]


def inputs_of(tokens, end):
    """What is read before each of a document's tokens: the mark of its beginning, then itself."""
    return [end, *tokens[:-1]]


def test_the_corpus_of_these_tests_has_short_long_and_cut_documents(mixed):
    lengths = [document.length for document in mixed.documents]
    assert min(lengths) < 5
    assert max(lengths) > 10 * CONTEXT
    assert mixed.entries > 2 * CHUNK_ENTRIES
    cut = [d for d in mixed.documents if d.first_entry < CHUNK_ENTRIES < d.first_entry + d.length]
    assert cut, "a document lies in two units"


def test_values_are_the_tokens_of_the_text_and_its_end(mixed, tiny_model):
    expected = [token for tokens in tokens_of(mixed, tiny_model) for token in tokens]
    assert mixed.values.compute().tolist() == expected


def test_pointers_lead_to_the_next_entry_of_the_document_and_end_with_it(mixed):
    expected = []
    for document in mixed.documents:
        first = document.first_entry
        expected += [*range(first + 1, first + document.length), -1]
    assert mixed.pointers.compute().tolist() == expected


def test_keys_of_documents_that_fit_the_window_are_those_of_an_unwindowed_forward(
    mixed, oracle, tiny_model
):
    compared = 0
    for document, tokens in zip(mixed.documents, tokens_of(mixed, tiny_model), strict=True):
        if document.length <= CONTEXT:
            found = mixed.rows(range(document.first_entry, document.first_entry + len(tokens)))
            np.testing.assert_allclose(found, oracle(inputs_of(tokens, tokens[-1])), **ROUNDING)
            compared += 1
    assert compared > 10


def test_keys_of_long_documents_are_those_of_a_forward_over_their_window(mixed, oracle, tiny_model):
    long = [document for document in mixed.documents if document.length > CONTEXT]
    texts = tokens_of(mixed, tiny_model)
    assert len(long) > 3
    for document in long:
        inputs = inputs_of(texts[document.number], texts[document.number][-1])
        found = mixed.rows(range(document.first_entry, document.first_entry + document.length))
        for start in range(0, document.length, STRIDE):
            first = start + CONTEXT - STRIDE if start else 0
            window = inputs[start : start + CONTEXT]
            if first < start + len(window):
                expected = oracle(window)[first - start :]
                np.testing.assert_allclose(
                    found[first : first + len(expected)], expected, **ROUNDING
                )


def test_what_else_is_in_the_corpus_does_not_change_a_document(mixed, oracle, tiny_model):
    """Other neighbours, other batches, other windows: the same keys, to float16's rounding."""
    corpus = mixed.store.corpus()
    spec, _ = identify(ModelSettings(model=str(tiny_model)))
    reader = KeyReader(WindowReader(corpus, TINY_CONTEXT, 32, 64), spec, "cpu")
    for document in mixed.documents[:12]:
        if document.length <= CONTEXT:
            first, last = document.first_entry, document.first_entry + document.length
            keys, _ = reader.keys(first, last)
            np.testing.assert_allclose(keys, mixed.rows(range(first, last)), **ROUNDING)


def test_a_store_that_was_extracted_verifies(mixed):
    assert verify(mixed.store).findings == []


def facts_of_units(path):
    stage = Store.open(path).manifest.stages["extract"]
    return [
        records.read(path, "extract", unit, stage.config_hash).facts for unit in range(stage.units)
    ]


def test_padding_of_one_sentence_documents_stays_under_a_tenth(small_store):
    facts = facts_of_units(small_store.path)
    computed, padded = (
        sum(unit[name] for unit in facts) for name in ("computed_tokens", "padded_tokens")
    )
    assert len(facts) > 4
    assert computed <= padded < computed / 0.9


def test_short_documents_are_computed_once_but_for_the_seams_of_units(small_store):
    facts = facts_of_units(small_store.path)
    computed = sum(unit["computed_tokens"] for unit in facts)
    entries = sum(unit["entries"] for unit in facts)
    assert entries == rd.open(small_store.path).entries
    assert entries <= computed < 1.05 * entries


def test_a_store_that_is_done_is_left_as_it_is(small_store, tmp_path):
    copy = small_store.copy(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in copy.path.rglob("*")}
    rd.extract(copy.path, **{**copy.settings, "workers": 1})
    assert {path: path.stat().st_mtime_ns for path in copy.path.rglob("*")} == before


def test_only_units_that_are_missing_are_done_and_progress_starts_where_it_was(
    small_store, tmp_path, capfd
):
    copy = small_store.copy(tmp_path)
    with writing(copy.path) as writer:
        writer.forget("extract", 0)
        writer.forget("extract", 2)
    chunks = list((copy.path / "datastore.zarr/keys/c").glob("*/0"))
    before = {path: path.stat().st_mtime_ns for path in chunks}
    capfd.readouterr()
    rd.extract(copy.path, **{**copy.settings, "progress": "json"})
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    changed = {path for path in chunks if path.stat().st_mtime_ns != before[path]}
    assert changed == {copy.path / f"datastore.zarr/keys/c/{unit}/0" for unit in (0, 2)}
    assert contents(copy.path) == contents(small_store.path)
    entries = rd.open(copy.path).entries
    assert [line["done"] for line in lines] == [entries - CHUNK_ENTRIES, entries]
    assert {line["total"] for line in lines} == {entries}
    assert {"tokens/s", "padding"} <= lines[-1].keys()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("batch_tokens", 512),
        ("context", 32),
        ("stride", 16),
        ("threads", 2),
        ("chunk_entries", 2 * CHUNK_ENTRIES),
        ("key", "final_hidden"),
    ],
)
def test_settings_that_can_change_bytes_are_bound_to_the_store(
    small_store, tmp_path, setting, value
):
    copy = small_store.copy(tmp_path)
    with writing(copy.path) as writer:
        writer.forget("extract", 0)
    before = contents(copy.path)
    with pytest.raises(ConfigMismatch, match=rf"{setting} was .*, now {value}"):
        rd.extract(copy.path, **{**copy.settings, setting: value})
    assert contents(copy.path) == before, "a refused run changes nothing"


def test_another_model_than_the_stores_is_refused(small_store, tmp_path):
    copy = small_store.copy(tmp_path)
    other = save_tiny_model(tmp_path / "other", n_layer=3)
    before = contents(copy.path)
    with pytest.raises(ConfigMismatch, match=r"stage extract .* model was "):
        rd.extract(copy.path, **{**copy.settings, "model": str(other)})
    assert contents(copy.path) == before


def spoil(tiny_model, folder, change):
    """The tiny model with its weights changed."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        change(model.transformer)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_key_that_is_nan_stops_extraction_with_its_entry_and_document(
    ray_local, tiny_model, tmp_path
):
    (tmp_path / "text").mkdir()
    for name, text in (("a.txt", "the key of "), ("b.txt", "in to λ and"), ("c.txt", "a state")):
        (tmp_path / "text" / name).write_text(text)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    a, b = (tokenizer(text)["input_ids"] for text in ("the key of ", "in to λ and"))
    bad = next(token for token in b if token not in a)
    model = spoil(tiny_model, tmp_path / "model", lambda body: body.wte.weight[bad].fill_(np.nan))
    with pytest.raises(ModelError) as caught:
        rd.extract(
            tmp_path / "nan.store",
            corpus=str(tmp_path / "text"),
            model=str(model),
            workers=1,
            progress="none",
        )
    found = re.search(
        r"entry (\d+) \(document 'b.txt' of \S+b.txt, position (\d+)\) is NaN", str(caught.value)
    )
    assert found, caught.value
    entry, position = map(int, found.groups())
    assert entry - position == len(a) + 1, "the first entry of b.txt"


def test_a_key_beyond_the_range_of_float16_stops_extraction(mixed, tiny_model, tmp_path):
    huge = spoil(tiny_model, tmp_path / "huge", lambda body: body.h[-1].ln_2.weight.mul_(1e6))
    windows = WindowReader(mixed.store.corpus(), CONTEXT, STRIDE, BATCH_TOKENS)
    reader = KeyReader(windows, identify(ModelSettings(model=str(huge)))[0], "cpu")
    with pytest.raises(ModelError, match=r"entry \d+ \(document '\d\d.txt'.*float16's range") as it:
        reader.keys(0, 200)
    assert "use another --key" in str(it.value)
    assert "--dtype" not in str(it.value), "that does not help"


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"workers": 99, "cpus_per_worker": 1}, ClusterError, "99 workers"),
        ({"workers": 1, "device": "cuda"}, ClusterError, "no GPU"),
        ({"context": 2 * TINY_CONTEXT}, BadInput, "larger than the model's"),
        ({"context": 16, "stride": 17}, BadInput, "stride 17 is larger"),
        ({"batch_tokens": 0}, BadInput, "--batch-tokens 0"),
        ({"chunk_entries": 1000}, BadInput, "--chunk-entries 1000"),
        ({"dtype": "bfloat16"}, ModelError, "bfloat16"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    ray_local, small_store, tmp_path, settings, error, words
):
    with pytest.raises(error, match=words):
        rd.extract(tmp_path / "new.store", **{**small_store.settings, **settings})
    assert list(tmp_path.iterdir()) == []
