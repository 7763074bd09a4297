"""What is held out is a share of the text; what a step sees follows from (seed, step)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.errors import CorpusError
from retomaton_dist.lm.tokenizer import wrap
from retomaton_dist.lm.train import batch_of, blocks_of, hold_out
from tests.lm.tiny import byte_level_tokenizer

documents = st.lists(st.text(min_size=1, max_size=20), min_size=2, max_size=30)
shares = st.floats(0.01, 0.9)


@given(documents, shares, st.integers(0, 9))
def test_every_document_is_on_one_side_and_neither_side_is_empty(texts, share, seed):
    training, held_out = hold_out(texts, share, seed)
    assert sorted(training + held_out) == sorted(texts)
    assert training
    assert held_out


@given(documents, shares)
def test_no_more_is_held_out_than_the_share_and_one_document(texts, share):
    held = [len(text) for text in hold_out(texts, share, 0)[1]]
    total = sum(map(len, texts))
    assert sum(held) >= share * total or len(held) == len(texts) - 1
    assert sum(held) - max(held) <= share * total


def test_the_seed_draws_what_is_held_out():
    texts = [f"document {i}" for i in range(50)]
    drawn = {tuple(hold_out(texts, 0.2, seed)[1]) for seed in (0, 1, 0)}
    assert len(drawn) == 2


def test_the_end_of_a_single_document_is_held_out():
    assert hold_out(["x" * 90 + "y" * 10], 0.1, 0) == (["x" * 90], ["y" * 10])


def test_no_text_is_an_error():
    with pytest.raises(CorpusError, match="no text"):
        hold_out([], 0.1, 0)


EOS = "<|endoftext|>"


def ids_of(tokenizer, text):
    return wrap("tiny", tokenizer).encode([text])[0][0].tolist()


def test_a_token_that_is_bos_and_eos_stands_once_before_each_document():
    tokenizer = byte_level_tokenizer(bos_token=EOS, eos_token=EOS)
    first, second = ids_of(tokenizer, "the key"), ids_of(tokenizer, "é")
    (row,) = blocks_of(tokenizer, ["the key", "é"], 100).tolist()
    assert row == [0, *first, 0, *second]


def test_distinct_bos_and_eos_both_stand_at_every_document():
    tokenizer = byte_level_tokenizer(bos_token=EOS)
    tokenizer.add_special_tokens({"eos_token": "</s>"})
    first, second = ids_of(tokenizer, "the"), ids_of(tokenizer, "key")
    end = tokenizer.eos_token_id
    (row,) = blocks_of(tokenizer, ["the", "key"], 100).tolist()
    assert row == [0, *first, end, 0, *second, end]


def test_a_block_ends_with_the_token_that_the_next_begins_with():
    tokenizer = byte_level_tokenizer(bos_token=EOS, eos_token=EOS)
    rows = blocks_of(tokenizer, ["the key of an entry"] * 5, 4)
    assert rows.shape[1] == 5
    assert (rows[:-1, -1] == rows[1:, 0]).all()


ROWS = np.arange(100)[:, None] * 10 + np.arange(11)


@given(st.integers(1, 60), st.integers(1, 12))
def test_an_epoch_sees_every_block_at_most_once_and_leaves_less_than_a_batch(tokens, blocks):
    rows, size = ROWS[:blocks], min(max(1, tokens // 10), blocks)
    seen = [row[0] for step in range(blocks // size) for row in batch_of(rows, step, tokens, 0)]
    assert len({*seen}) == len(seen) > blocks - size


def test_the_order_follows_from_seed_and_step_alone():
    forwards = [batch_of(ROWS, step, 30, 7).tolist() for step in range(80)]
    backwards = [batch_of(ROWS, step, 30, 7).tolist() for step in reversed(range(80))]
    assert forwards == backwards[::-1]
    assert forwards[:33] != forwards[33:66]
    assert forwards[0] != batch_of(ROWS, 0, 30, 8).tolist()
