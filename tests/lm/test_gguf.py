"""A GGUF file gives the same keys and tokens as the folder it was made from."""

import importlib.util
from pathlib import Path

import pytest
import torch

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.identity import identify, load_tokenizer
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.outline import outline
from retomaton_dist.lm.source import find_model, fingerprint
from retomaton_dist.lm.tokenizer import wrap
from retomaton_dist.settings import ModelSettings
from tests.lm.tiny import CONTEXT, TEXTS, build_model, byte_level_tokenizer, random_ids, spec_of

EOS = "<|endoftext|>"
needs_gguf = pytest.mark.skipif(
    importlib.util.find_spec("gguf") is None, reason="gguf is not installed"
)
needs_accelerate = pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed"
)

TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    prefix, kind = "", name.rsplit(".", 1)[1]
    stem = name.removesuffix(f".{kind}")
    if stem.startswith("model.layers."):
        _, _, layer, stem = stem.split(".", 3)
        prefix = f"blk.{layer}."
    return f"{prefix}{TENSORS[stem]}.{kind}"


def write_gguf(path, model, tokenizer):
    import gguf

    config, writer = model.config, gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    add_tokenizer(writer, tokenizer)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(gguf_name(name), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer, tokenizer):
    import json

    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    writer.add_token_types([3] + [1] * (len(tokenizer) - 1))
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(tokenizer.eos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)


@pytest.fixture(scope="module")
def tokenizer():
    return byte_level_tokenizer(eos_token=EOS, bos_token=EOS)


@pytest.fixture(scope="module")
def model(tokenizer):
    return build_model("qwen2", vocabulary=len(tokenizer), tie_word_embeddings=False)


@pytest.fixture(scope="module")
def settings(tmp_path_factory, model, tokenizer):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return ModelSettings(model=str(write_gguf(path, model, tokenizer)))


@needs_gguf
def test_the_tokens_are_those_of_the_original(settings, tokenizer):
    original = wrap("original", tokenizer)
    found = load_tokenizer(identify(settings)[0])
    assert (found.bos, found.eos, found.vocabulary) == (0, 0, len(tokenizer))
    for ours, theirs in zip(found.encode(TEXTS), original.encode(TEXTS), strict=True):
        assert ours[0].tolist() == theirs[0].tolist()
        assert ours[1].tolist() == theirs[1].tolist()


@needs_gguf
def test_the_sizes_are_those_of_the_original(settings, tokenizer):
    found = outline(identify(settings)[0])
    assert (found.architecture, found.dimension) == ("qwen2", 16)
    assert (found.max_context, found.vocabulary) == (CONTEXT, len(tokenizer))


@needs_gguf
@needs_accelerate
def test_the_keys_and_logits_are_those_of_the_original(settings, model, tmp_path, capfd):
    model.save_pretrained(tmp_path)
    original = LanguageModel.load(spec_of(tmp_path), "cpu")
    capfd.readouterr()
    found = LanguageModel.load(spec_of(settings.model), "cpu")
    assert capfd.readouterr().err == ""
    ids = random_ids(2, 9, vocabulary=found.vocabulary)
    for ours, theirs in zip(found.keys_and_logits(ids), original.keys_and_logits(ids), strict=True):
        torch.testing.assert_close(ours, theirs)


@needs_gguf
def test_the_fingerprint_is_of_the_file(settings, tmp_path):
    copy = tmp_path / "other.gguf"
    copy.write_bytes(find_model(settings).folder.joinpath("tiny.gguf").read_bytes())
    same = ModelSettings(model=str(copy))
    assert fingerprint(find_model(same)) == fingerprint(find_model(settings))


@needs_gguf
@pytest.mark.parametrize("missing", [1, 1000])
def test_a_file_cut_short_is_refused_before_weights_are_loaded(settings, tmp_path, missing):
    copy = tmp_path / "cut.gguf"
    copy.write_bytes(Path(settings.model).read_bytes()[:-missing])
    with pytest.raises(ModelError, match="of model"):
        outline(spec_of(copy))


@needs_gguf
def test_a_damaged_file_is_an_error(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF but nothing else")
    with pytest.raises(ModelError, match="of model"):
        identify(ModelSettings(model=str(tmp_path / "bad.gguf")))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="`pip install gguf`"):
        identify(ModelSettings(model=str(tmp_path / "some.gguf")))
