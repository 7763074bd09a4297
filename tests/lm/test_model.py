"""A loaded model gives the same keys whatever the padding, and refuses what it cannot do."""

import json

import pytest
import torch

from retomaton_dist.errors import ModelError, OutOfMemory
from retomaton_dist.lm.model import LanguageModel, choose_dtype
from retomaton_dist.lm.windows import document_windows
from tests.lm.tiny import (
    CONTEXT,
    FAMILIES,
    VOCABULARY,
    random_ids,
    save_model,
    spec_of,
)

KEYS = ("last_ffn_input", "last_ffn_output", "final_hidden")


def load(folder, key="last_ffn_input", device="cpu", **settings):
    return LanguageModel.load(spec_of(folder, key, **settings), device)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return save_model("gpt2", tmp_path_factory.mktemp("gpt2"))


def assert_same_in_float16(actual, expected):
    """Equal to float16 rounding: at most one step of float16 apart, relative to the largest."""
    atol = 2**-11 * expected.abs().max().item()
    torch.testing.assert_close(
        actual.half().float(), expected.half().float(), rtol=2**-10, atol=atol
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_keys_are_the_same_whatever_the_padding(family, tmp_path):
    lm = load(save_model(family, tmp_path))
    rows = [random_ids(1, tokens, seed=tokens) for tokens in (3, 11, 17)]
    for pad in (0, 1, 7):
        padded = torch.full((3, 20), pad)
        for row, ids in zip(padded, rows, strict=True):
            row[: ids.shape[1]] = ids
        keys = lm.keys(padded)
        assert keys.shape == (3, 20, lm.dimension)
        for key, ids in zip(keys, rows, strict=True):
            assert_same_in_float16(key[: ids.shape[1]], lm.keys(ids)[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_windows_agree_with_one_forward_pass_where_the_document_fits(family, tmp_path):
    lm = load(save_model(family, tmp_path))
    ids = random_ids(1, 20)
    whole = lm.keys(ids)[0]
    windows = document_windows(0, 20, 12, 4, 0, 20)
    assert len(windows) == 3
    first = lm.keys(ids[:, : windows[0].length])[0]
    assert_same_in_float16(first, whole[:12])
    (fitting,) = document_windows(0, 20, CONTEXT, 4, 0, 20)
    assert_same_in_float16(lm.keys(ids[:, : fitting.length])[0], whole)


@pytest.mark.parametrize("key", KEYS)
def test_keys_that_stop_the_forward_pass_equal_those_of_a_full_one(gpt2, key):
    lm, ids = load(gpt2, key), random_ids(2, 9)
    keys, logits = lm.keys_and_logits(ids)
    torch.testing.assert_close(lm.keys(ids), keys)
    assert logits.shape == (2, 9, VOCABULARY)
    with torch.inference_mode():
        torch.testing.assert_close(logits, lm.model(ids).logits)


@pytest.mark.parametrize("key", KEYS)
def test_neither_the_head_nor_what_follows_the_key_is_computed(gpt2, key):
    lm = load(gpt2, key)
    calls = []
    for name in ("lm_head", "transformer.h.1.mlp.c_fc", "transformer.h.1.ln_2"):
        lm.model.get_submodule(name).register_forward_hook(lambda *_, name=name: calls.append(name))
    lm.keys(random_ids(1, 4))
    after = {"last_ffn_input": [], "last_ffn_output": ["transformer.h.1.mlp.c_fc"]}
    assert calls == ["transformer.h.1.ln_2", *after.get(key, ["transformer.h.1.mlp.c_fc"])]


def test_no_hook_stays_behind(gpt2):
    lm, ids = load(gpt2), random_ids(1, 4)
    lm.keys(ids)
    lm.keys_and_logits(ids)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in lm.model.modules())


def test_the_sizes_are_those_of_the_config(gpt2):
    lm = load(gpt2)
    assert (lm.dimension, lm.max_context, lm.vocabulary) == (16, CONTEXT, VOCABULARY)


def test_a_key_of_another_width_than_the_hidden_states_is_measured(tmp_path):
    save_model("opt", tmp_path, word_embed_proj_dim=8)
    assert load(tmp_path, "final_hidden").dimension == 8
    assert load(tmp_path, "last_ffn_input").dimension == 16


def test_code_that_comes_with_a_model_never_runs_unless_asked_for(tmp_path):
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"never read as weights")
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ModelError, match="--trust-remote-code"):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("config", ["", "[]", "{}", '{"model_type": "gpt2", "n_embd": "x"}'])
def test_a_damaged_config_is_an_error(tmp_path, config):
    save_model("gpt2", tmp_path)
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelError, match="config of model"):
        load(tmp_path)


def test_a_model_that_sees_later_tokens_is_refused(tmp_path):
    from transformers import BertConfig, BertLMHeadModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        is_decoder=False,
    )
    BertLMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="not causal"):
        load(tmp_path, "final_hidden")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_on_cpu_is_refused(gpt2, dtype):
    with pytest.raises(ModelError, match="--dtype float32"):
        load(gpt2, dtype=dtype)


def test_auto_dtype_is_float32_on_cpu_and_float16_on_gpu():
    assert choose_dtype(None, "cpu") is torch.float32
    assert choose_dtype(None, "cuda") is torch.float16
    assert choose_dtype("bfloat16", "cuda") is torch.bfloat16


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there_is_an_error(gpt2):
    with pytest.raises(ModelError, match="no GPU on this machine"):
        load(gpt2, device="cuda")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("call", ["keys", "keys_and_logits"])
def test_running_out_of_memory_names_the_settings_to_lower(gpt2, error, call):
    lm = load(gpt2)

    def fail(*_):
        raise error

    lm.model.transformer.h[0].register_forward_hook(fail)
    with pytest.raises(OutOfMemory, match=r"--batch-tokens.*--context"):
        getattr(lm, call)(random_ids(1, 4))


def test_a_batch_that_no_machine_holds_is_reported_as_out_of_memory(gpt2):
    lm = load(gpt2)
    with pytest.raises(OutOfMemory, match="--batch-tokens"):
        lm.keys(torch.zeros(1, dtype=torch.long).expand(1 << 45).reshape(1 << 42, 8))


def test_other_errors_of_the_forward_pass_are_not_called_out_of_memory(gpt2):
    with pytest.raises(IndexError):
        load(gpt2).keys(torch.tensor([[VOCABULARY + 5]]))


def test_loading_says_nothing_on_stderr(gpt2, capfd):
    load(gpt2)
    assert capfd.readouterr().err == ""
