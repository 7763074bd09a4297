"""Reading texts that grow gives what reading the finished texts gives, whatever the family."""

import numpy as np
import pytest
import torch

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.stepper import Stepper
from retomaton_dist.lm.text_rows import GrowingRows
from retomaton_dist.lm.windows import document_windows
from tests.lm.tiny import FAMILIES, VOCABULARY, save_model, spec_of

CONTEXT, STRIDE = 16, 6
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The models of all families by name, loaded when they are first asked for."""
    folder, loaded = tmp_path_factory.mktemp("families"), {}

    def load(family, key="last_ffn_input"):
        if (family, key) not in loaded:
            path = folder / family
            save_model(family, path)
            loaded[family, key] = LanguageModel.load(spec_of(path, key), "cpu")
        return loaded[family, key]

    return load


def read(lm, tokens):
    """The oracle: every window from its start, without a cache."""
    keys, logits = [], []
    for window in document_windows(0, len(tokens), CONTEXT, STRIDE, 0, len(tokens)):
        ids = torch.tensor(tokens[window.start : window.last])[None].long()
        found = lm.keys_and_logits(ids)
        keys.append(found[0][0, window.keep :])
        logits.append(found[1][0, window.keep :])
    return torch.cat(keys).float().numpy(), torch.cat(logits).detach().numpy()


def begin(stepper, beginnings):
    """Rows that have read these beginnings, in blocks that end where windows do, and the output."""
    rows, texts = GrowingRows(stepper, len(beginnings)), list(enumerate(beginnings))
    queries = [[] for _ in beginnings]
    logits = [None for _ in beginnings]
    while left := [row for row, text in texts if rows.lengths[row] < len(text)]:
        chosen = np.array(left)
        before = rows.lengths[chosen]
        ends = np.array([len(beginnings[row]) for row in left])
        counts = np.minimum(ends - before, rows.room()[chosen])
        tokens = np.zeros((len(left), counts.max()), np.int64)
        for place, row in enumerate(left):
            known = beginnings[row][before[place] : before[place] + counts[place]]
            tokens[place, : len(known)] = known
        found = rows.extend(tokens, counts, chosen, last_only=True)
        for place, row in enumerate(left):
            queries[row].extend(found.queries[place, : counts[place]])
            logits[row] = found.logits[place, 0].numpy()
    return rows, queries, logits


def grown(stepper, texts, sizes, random, most=4, rejecting=False):
    """Read texts to their ends in steps of random sizes; some inputs are wrong and taken back."""
    rows, queries, last = begin(stepper, [t[:n] for t, n in zip(texts, sizes, strict=True)])
    logits = [[found] for found in last]
    left = np.arange(len(texts))
    while len(left):
        lengths = rows.lengths.copy()
        ends = np.array([len(texts[row]) for row in left])
        if (done := lengths >= ends).any():
            rows.select(np.flatnonzero(~done))
            left = left[~done]
            continue
        counts = np.minimum(random.integers(1, most + 1, len(left)), rows.room())
        counts = np.minimum(counts, ends - lengths)
        tokens = random.integers(0, VOCABULARY, (len(left), counts.max()))
        for place, row in enumerate(left):
            known = texts[row][lengths[place] : lengths[place] + counts[place]]
            tokens[place, : len(known)] = known
        kept = random.integers(1, counts + 1) if rejecting else counts
        wrong = np.arange(tokens.shape[1]) >= kept[:, None]
        tokens = np.where(wrong, random.integers(0, VOCABULARY, tokens.shape), tokens)
        found = rows.extend(tokens, counts)
        rows.crop(lengths + kept)
        for place, row in enumerate(left):
            queries[row].extend(found.queries[place, : kept[place]])
            logits[row].extend(found.logits[place, : kept[place]].numpy())
    return queries, logits


def check(lm, lengths, sizes, seed, **how):
    random = np.random.default_rng(seed)
    texts = [random.integers(0, VOCABULARY, length).astype(np.int32) for length in lengths]
    queries, logits = grown(Stepper(lm, CONTEXT, STRIDE), texts, sizes, random, **how)
    for text, first, found, said in zip(texts, sizes, queries, logits, strict=True):
        keys, wanted = read(lm, text)
        assert np.array(found) == pytest.approx(keys, rel=TOLERANCE, abs=TOLERANCE)
        assert np.array(said) == pytest.approx(wanted[first - 1 :], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_all_families_grow_side_by_side_as_if_read_at_once(models, family):
    check(models(family), (40, 9, 23), (5, 1, 16), seed=1, rejecting=True)


@pytest.mark.parametrize("key", ["last_ffn_output", "final_hidden"])
def test_every_key_can_be_stepped(models, key):
    check(models("llama", key), (30, 20), (2, 18), seed=2)


def test_beginnings_longer_than_the_context_are_read_window_by_window(models):
    check(models("gpt2"), (60, 45, 17, 16), (47, 22, 17, 16), seed=3)


def test_one_row_needs_no_mask_and_grows_by_single_tokens(models):
    check(models("gpt2"), (40,), (1,), seed=4, most=1)


def test_rows_can_be_copied_and_reordered(models):
    lm, random = models("llama"), np.random.default_rng(5)
    texts = [random.integers(0, VOCABULARY, 12).astype(np.int32) for _ in range(2)]
    rows, _, _ = begin(Stepper(lm, CONTEXT, STRIDE), [texts[0][:4], texts[1][:7]])
    rows.select(np.array([1, 0, 1]))
    tokens = np.array([texts[1][7], texts[0][4], texts[1][8]])[:, None].astype(np.int64)
    found = rows.extend(tokens, np.ones(3, np.int64))
    beginnings = [texts[1][:8], texts[0][:5], np.append(texts[1][:7], texts[1][8])]
    for place, beginning in enumerate(beginnings):
        assert found.queries[place, -1] == pytest.approx(read(lm, beginning)[0][-1], abs=TOLERANCE)


def test_rows_that_come_from_elsewhere_go_on_as_if_they_had_begun_here(models):
    stepper, random = Stepper(models("llama"), CONTEXT, STRIDE), np.random.default_rng(6)
    texts = [random.integers(0, VOCABULARY, size).astype(np.int32) for size in (15, 9, 40)]
    rows, _, _ = begin(stepper, [texts[0][:14]])
    others, _, _ = begin(stepper, [texts[1][:3], texts[2][:39], texts[1][:8]])
    rows.join(others.take(np.array([2, 1])))
    tokens = np.array([texts[0][14], texts[1][8], texts[2][39]])[:, None].astype(np.int64)
    found = rows.extend(tokens, np.ones(3, np.int64))
    for place, text in enumerate(texts):
        keys, logits = read(stepper.lm, text)
        assert found.queries[place, -1] == pytest.approx(keys[-1], abs=TOLERANCE)
        assert found.logits[place, -1].numpy() == pytest.approx(logits[-1], abs=1e-3)


def test_a_model_that_attends_to_a_window_is_not_asked_for_unequal_rows_at_once(models):
    assert Stepper(models("llama"), CONTEXT, STRIDE).together
    assert not Stepper(models("mistral"), CONTEXT, STRIDE).together
    assert not Stepper(models("gpt_neo"), CONTEXT, STRIDE).together


def test_a_model_without_such_a_cache_is_refused(tmp_path):
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(
        vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=2, expand=1
    )
    MambaForCausalLM(config).save_pretrained(tmp_path / "mamba")
    lm = LanguageModel.load(spec_of(tmp_path / "mamba", "last_ffn_output"), "cpu")
    with pytest.raises(ModelError, match="cannot be read step by step"):
        _ = Stepper(lm, CONTEXT, STRIDE).together
