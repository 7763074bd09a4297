"""Tiny models of every family, with random weights, and tiny tokenizers, made on the spot."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from retomaton_dist.lm.identity import ModelIdentity, ModelSpec
from retomaton_dist.lm.source import find_model, fingerprint
from retomaton_dist.settings import ModelSettings

VOCABULARY = 300
CONTEXT = 48
TEXTS = ["the key of an entry", "naïve café, 東京 🗼", "def walk(state):\n    return state\n"]

_LLAMA = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": CONTEXT,
}
_GEMMA = _LLAMA | {"head_dim": 8}
_SLIDING = {"sliding_window": 8}

CONFIGS = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": CONTEXT},
    "gpt_neo": {
        "hidden_size": 16,
        "num_layers": 2,
        "num_heads": 2,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 8,
        "max_position_embeddings": CONTEXT,
    },
    "gpt_neox": _LLAMA | {"use_parallel_residual": True},
    "opt": {
        "hidden_size": 16,
        "ffn_dim": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "word_embed_proj_dim": 16,
        "max_position_embeddings": CONTEXT,
    },
    "llama": _LLAMA,
    "mistral": _LLAMA | _SLIDING,
    "qwen2": _LLAMA,
    "qwen3": _GEMMA,
    "gemma": _GEMMA,
    "gemma2": _GEMMA | _SLIDING,
    "gemma3_text": _GEMMA | _SLIDING,
    "phi": _LLAMA,
    "phi3": _LLAMA | {"pad_token_id": 0},
}
FAMILIES = sorted(CONFIGS)


def build_model(family, vocabulary=VOCABULARY, **overrides):
    """A model with weights large enough that attention and norms leave their mark."""
    torch.manual_seed(sum(family.encode()))
    config = AutoConfig.for_model(
        family, **(CONFIGS[family] | {"vocab_size": vocabulary} | overrides)
    )
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def save_model(family, folder, vocabulary=VOCABULARY, **overrides):
    build_model(family, vocabulary, **overrides).save_pretrained(folder)
    return folder


def spec_of(model, key="last_ffn_input", dtype=None, trust_remote_code=False):
    """What `identify` makes of a model, also of one that has no tokenizer."""
    source = find_model(ModelSettings(model=str(model)))
    identity = ModelIdentity(source.name, source.place, None, fingerprint(source), tokenizer="")
    return ModelSpec(identity, key, dtype, trust_remote_code)


def byte_level_tokenizer(special="<|endoftext|>", vocabulary=VOCABULARY, **kwargs):
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[special] if special else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **kwargs)


def random_ids(rows, tokens, seed=0, vocabulary=VOCABULARY):
    return torch.randint(
        3, vocabulary, (rows, tokens), generator=torch.Generator().manual_seed(seed)
    )
