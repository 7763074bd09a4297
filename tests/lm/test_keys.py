"""The key of every family is the tensor that its own forward pass has at that place."""

import pytest
import torch

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.keys import find_key
from tests.lm.tiny import CONFIGS, FAMILIES, build_model, random_ids

KEYS = ("last_ffn_input", "last_ffn_output", "final_hidden")


def watched(model, key, input_ids):
    """The key as found, and the logits, of one forward pass."""
    seen = []
    handle = find_key(model, key).watch(seen.append)
    with torch.inference_mode():
        logits = model(input_ids, use_cache=False).logits
    handle.remove()
    assert len(seen) == 1
    return seen[0].reshape(*input_ids.shape, -1), logits


def call_inputs(module, model, input_ids):
    seen = []
    handle = module.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    with torch.inference_mode():
        model(input_ids, use_cache=False)
    handle.remove()
    return seen[0]


# By hand, from each family's own code: what turns the input of the feed-forward block into the
# output of the last layer, given what the block gives and the layer's input and attention.
NORM_BEFORE_FFN = {
    "gpt2": lambda model: model.transformer.h[-1].ln_2,
    "gpt_neo": lambda model: model.transformer.h[-1].ln_2,
    "gpt_neox": lambda model: model.gpt_neox.layers[-1].post_attention_layernorm,
    "opt": lambda model: model.model.decoder.layers[-1].final_layer_norm,
    "llama": lambda model: model.model.layers[-1].post_attention_layernorm,
    "mistral": lambda model: model.model.layers[-1].post_attention_layernorm,
    "qwen2": lambda model: model.model.layers[-1].post_attention_layernorm,
    "qwen3": lambda model: model.model.layers[-1].post_attention_layernorm,
    "gemma": lambda model: model.model.layers[-1].post_attention_layernorm,
    "gemma2": lambda model: model.model.layers[-1].pre_feedforward_layernorm,
    "gemma3_text": lambda model: model.model.layers[-1].pre_feedforward_layernorm,
    "phi": lambda model: model.model.layers[-1].input_layernorm,
    "phi3": lambda model: model.model.layers[-1].post_attention_layernorm,
}
FINAL_NORM = {
    "gpt2": lambda model: model.transformer.ln_f,
    "gpt_neo": lambda model: model.transformer.ln_f,
    "gpt_neox": lambda model: model.gpt_neox.final_layer_norm,
    "opt": lambda model: model.model.decoder.final_layer_norm,
    "phi": lambda model: model.model.final_layernorm,
}


def final_norm(family, model):
    return FINAL_NORM[family](model) if family in FINAL_NORM else model.model.norm


@pytest.mark.parametrize("family", FAMILIES)
def test_last_ffn_input_is_the_residual_stream_after_the_norm_before_the_block(family):
    model, input_ids = build_model(family), random_ids(2, 9)
    norm = NORM_BEFORE_FFN[family](model)
    residual = call_inputs(norm, model, input_ids)
    with torch.inference_mode():
        expected = norm(residual).reshape(2, 9, -1)
    torch.testing.assert_close(watched(model, "last_ffn_input", input_ids)[0], expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_last_ffn_output_is_what_the_final_norm_reads(family):
    model, input_ids = build_model(family), random_ids(2, 9)
    expected = call_inputs(final_norm(family, model), model, input_ids)
    torch.testing.assert_close(watched(model, "last_ffn_output", input_ids)[0], expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_final_hidden_is_the_last_hidden_state_and_gives_the_logits(family):
    model, input_ids = build_model(family), random_ids(2, 9)
    key, logits = watched(model, "final_hidden", input_ids)
    with torch.inference_mode():
        states = model(input_ids, use_cache=False, output_hidden_states=True).hidden_states
        head = model.get_output_embeddings()(key)
    torch.testing.assert_close(key, states[-1])
    cap = getattr(model.config, "final_logit_softcapping", None)
    torch.testing.assert_close(torch.tanh(head / cap) * cap if cap else head, logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_three_keys_differ(family):
    model, input_ids = build_model(family), random_ids(1, 5)
    keys = [watched(model, key, input_ids)[0] for key in KEYS]
    assert not torch.allclose(keys[0], keys[1], atol=1e-3)
    assert not torch.allclose(keys[1], keys[2], atol=1e-3)


def test_layers_that_normalise_after_the_block_give_the_unnormalised_input():
    model, input_ids = build_model("opt", do_layer_norm_before=False), random_ids(2, 7)
    expected = call_inputs(model.model.decoder.layers[-1].fc1, model, input_ids)
    key, _ = watched(model, "last_ffn_input", input_ids)
    torch.testing.assert_close(key, expected.reshape(2, 7, -1))


def test_every_family_that_is_promised_is_tested():
    assert set(CONFIGS) == set(NORM_BEFORE_FFN)


def test_an_architecture_without_a_feed_forward_block_is_refused_by_name():
    model = build_model_of_mamba()
    with pytest.raises(ModelError, match=r"'mamba'.*use --key last_ffn_output or final_hidden"):
        find_key(model, "last_ffn_input")
    find_key(model, "last_ffn_output")


def build_model_of_mamba():
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(MambaConfig(vocab_size=50, hidden_size=8, num_hidden_layers=2))


def test_an_architecture_without_a_list_of_layers_is_refused_by_name():
    model = build_model("gpt2")
    model.config.n_layer = 5
    with pytest.raises(ModelError, match=r"'gpt2'.*use --key final_hidden"):
        find_key(model, "last_ffn_output")
