"""Reading a text: what the model says is what one forward pass over the document says."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.text_reader import TextReader, blocks, slabs
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.model_reader import Span, WindowReader
from retomaton_dist.settings import ModelSettings
from retomaton_dist.storage.store import Store


@pytest.fixture(scope="module")
def opened(small_store):
    return Store.open(small_store.path)


@pytest.fixture(scope="module")
def reader(opened, tiny_model):
    """Make a reader of the corpus with these windows; `context` None: as the store's keys."""

    def make(context=None, stride=None, batch_tokens=None):
        config = opened.stage("extract").config
        sizes = {"context": context, "stride": stride, "batch_tokens": batch_tokens}
        chosen = {name: value or config[name] for name, value in sizes.items()}
        windows = WindowReader(opened.corpus(), **chosen)
        return TextReader(windows, identify(ModelSettings(model=str(tiny_model)))[0], "cpu")

    return make


def whole(corpus, documents):
    """Spans of whole documents, one after the other."""
    spans, row = [], 0
    for number in documents:
        length = int(corpus.lengths[number])
        spans.append(Span(number, 0, length, row))
        row += length
    return spans


def test_log_probabilities_are_those_of_one_forward_pass(reader, opened, tiny_model):
    corpus, model = opened.corpus(), AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    documents = [5, 3, 41]
    reading = reader().read(whole(corpus, documents))
    row = 0
    for number in documents:
        length = int(corpus.lengths[number])
        with torch.inference_mode():
            inputs = torch.tensor(corpus.inputs(number, 0, length).astype(np.int64))[None]
            logs = torch.log_softmax(model(inputs).logits[0].double(), -1).numpy()
        first = int(corpus.first_entries[number])
        tokens, rows = corpus.values(first, first + length), slice(row, row + length)
        assert np.array_equal(reading.tokens[rows], tokens)
        assert reading.previous[rows].tolist() == [-1, *tokens[:-1]]
        expected = logs[np.arange(length), tokens]
        assert reading.log_lm[rows] == pytest.approx(expected, abs=1e-4)
        assert reading.entropy[rows] == pytest.approx(-(np.exp(logs) * logs).sum(1), abs=1e-4)
        assert reading.confidence[rows] == pytest.approx(logs.max(axis=1), abs=1e-4)
        chosen = logs[np.arange(length), reading.favourites[rows]]
        assert chosen == pytest.approx(logs.max(axis=1), abs=1e-4)
        row += length


def test_queries_are_the_keys_of_extraction(reader, opened):
    made = reader()
    datastore = opened.datastore()
    first, last = datastore.shape.chunk_range(1)
    reading = made.read(made.windows.spans(first, last))
    assert np.array_equal(reading.queries, datastore.keys[first:last])
    assert np.array_equal(reading.tokens, datastore.values[first:last])


def test_a_text_is_the_same_read_whole_or_slab_by_slab(reader, opened):
    corpus, made = opened.corpus(), reader(context=8, stride=5, batch_tokens=64)
    lengths = np.asarray(corpus.lengths)
    documents = [*np.argsort(lengths)[-3:].tolist(), 0, 1]
    assert lengths[documents].max() > 16, "some are longer than a window"
    together = made.read(whole(corpus, sorted(documents)))
    starts = dict(zip(sorted(documents), np.cumsum([0, *lengths[sorted(documents)]]), strict=False))
    (block,) = blocks(documents, lengths)
    for slab in slabs(block, positions=7):
        reading = made.read(slab.spans)
        numbers, places = slab.positions()
        rows = np.array([starts[number] for number in numbers]) + places
        assert reading.text is None, "models of text alone are asked elsewhere"
        for item in fields(LMOutput)[:-1]:
            found, expected = getattr(reading, item.name), getattr(together, item.name)[rows]
            if item.name in ("tokens", "previous"):
                assert np.array_equal(found, expected)
            else:
                assert found == pytest.approx(
                    expected, abs=5e-3 if item.name == "queries" else 1e-4
                )
