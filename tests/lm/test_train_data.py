"""What is held out is a share of the text; what a step sees follows from (seed, step)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.errors import CorpusError
from retomaton_dist.lm.tokenizer import wrap
from retomaton_dist.lm.train_data import (
    TokenStream,
    fingerprint_texts,
    make_stream,
    read_texts,
    split_documents,
)
from retomaton_dist.settings import CorpusSettings
from tests.lm.tiny import byte_level_tokenizer

documents = st.lists(st.text(min_size=1, max_size=20), min_size=2, max_size=30)
shares = st.floats(0.01, 0.9)


def test_the_documents_of_a_corpus_come_as_texts_without_the_empty_ones(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n \ntwo\n")
    (tmp_path / "b.txt").write_text("three")
    found = read_texts(CorpusSettings(corpus=(str(tmp_path),), split="line"))
    assert found == ["one", "two", "three"]


@given(documents, shares, st.integers(0, 9))
def test_every_document_is_on_one_side_and_neither_side_is_empty(texts, share, seed):
    split = split_documents(texts, share, seed)
    assert sorted(split.training + split.validation) == sorted(texts)
    assert split.training
    assert split.validation


@given(documents, shares)
def test_no_more_is_held_out_than_the_share_and_one_document(texts, share):
    held = [len(text) for text in split_documents(texts, share, 0).validation]
    total = sum(map(len, texts))
    assert sum(held) >= share * total or len(held) == len(texts) - 1
    assert sum(held) - max(held) <= share * total


def test_the_seed_draws_what_is_held_out():
    texts = [f"document {i}" for i in range(50)]
    drawn = {tuple(split_documents(texts, 0.2, seed).validation) for seed in (0, 1, 0)}
    assert len(drawn) == 2


def test_the_end_of_a_single_document_is_held_out():
    split = split_documents(["x" * 90 + "y" * 10], 0.1, 0)
    assert (split.training, split.validation) == (["x" * 90], ["y" * 10])


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_is_an_error(texts):
    with pytest.raises(CorpusError, match="no text"):
        split_documents(texts, 0.1, 0)


def test_the_fingerprint_knows_where_documents_end():
    assert fingerprint_texts(["ab", "c"]) == fingerprint_texts(["ab", "c"])
    assert fingerprint_texts(["ab", "c"]) != fingerprint_texts(["a", "bc"])


EOS = "<|endoftext|>"


def ids_of(tokenizer, text):
    return tokenizer.encode([text])[0][0].tolist()


def test_a_token_that_is_bos_and_eos_stands_once_between_documents():
    tokenizer = wrap("tiny", byte_level_tokenizer(bos_token=EOS, eos_token=EOS))
    stream = make_stream(tokenizer, ["the key", "é"], 4)
    first, second = ids_of(tokenizer, "the key"), ids_of(tokenizer, "é")
    assert stream.tokens.tolist() == [0, *first, 0, *second, 0]
    assert stream.bytes == 9


def test_distinct_bos_and_eos_both_stand_at_every_document():
    inner = byte_level_tokenizer(bos_token=EOS)
    inner.add_special_tokens({"eos_token": "</s>"})
    tokenizer = wrap("tiny", inner)
    stream = make_stream(tokenizer, ["the", "key"], 4)
    first, second = ids_of(tokenizer, "the"), ids_of(tokenizer, "key")
    end = tokenizer.eos
    assert stream.tokens.tolist() == [0, *first, end, 0, *second, end]


def test_text_shorter_than_a_block_makes_one_shorter_block():
    tokenizer = wrap("tiny", byte_level_tokenizer(bos_token=EOS, eos_token=EOS))
    stream = make_stream(tokenizer, ["the"], 100)
    assert (stream.blocks, stream.context) == (1, len(stream.tokens) - 1)


@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 12))
def test_an_epoch_sees_every_block_at_most_once_and_leaves_less_than_a_batch(context, rows, blocks):
    stream = TokenStream(np.arange(blocks * context + 1, dtype=np.int32), context, 1)
    assert stream.blocks == blocks
    per_epoch = blocks // min(rows, blocks)
    firsts = [row[0] for step in range(per_epoch) for row in stream.batch(step, rows, 0).tolist()]
    assert len(set(firsts)) == len(firsts) > blocks - rows
    for row in stream.batch(0, rows, 0).tolist():
        assert row == list(range(row[0], row[0] + context + 1))


def test_the_order_follows_from_seed_and_step_alone():
    stream = TokenStream(np.arange(1001, dtype=np.int32), 10, 1)
    forwards = [stream.batch(step, 3, 7).tolist() for step in range(80)]
    backwards = [stream.batch(step, 3, 7).tolist() for step in reversed(range(80))]
    assert forwards == backwards[::-1]
    assert forwards[:33] != forwards[33:66]
    assert forwards[0] != stream.batch(0, 3, 8).tolist()
