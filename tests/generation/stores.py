"""Small stores of three families, made once, and how they are loaded."""

from dataclasses import replace

import numpy as np

import retomaton_dist as rd
from retomaton_dist.generation.loaded import load
from retomaton_dist.methods.adaptive import AdaptiveMixing, Bases
from retomaton_dist.methods.constant import Constants
from retomaton_dist.methods.mixture_network import MixtureNetwork, train_mixture
from tests.conftest import TINY_CONTEXT
from tests.lm.tiny import build_model, byte_level_tokenizer

# With BOS and EOS, with neither, and one that attends to a window of the last tokens.
FAMILIES = {"gpt2": "<|endoftext|>", "llama": None, "mistral": "<|endoftext|>"}
QUIET = {"workers": 0, "progress": "none"}


def save_model(family, folder):
    """A tiny model with random weights, and its tokenizer."""
    end = FAMILIES[family]
    shape = {"n_positions": TINY_CONTEXT} if family == "gpt2" else {}
    sized = {} if shape else {"max_position_embeddings": TINY_CONTEXT}
    marks = {"bos_token_id": 0, "eos_token_id": 0} if end else {}
    named = {"bos_token": end, "eos_token": end} if end else {}
    tokenizer = byte_level_tokenizer(end, **named)
    # Whatever is drawn is a token, and can be scored.
    build_model(family, len(tokenizer), **shape, **sized, **marks).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def build_store(folder, model, corpus):
    """A store of the corpus with both indexes and automata of exact keys."""
    path = folder / "store"
    chosen = {"corpus": str(corpus), "split": "line", "model": str(model)}
    rd.extract(path, **chosen, context=16, stride=6, **QUIET)
    rd.cluster(path, states=50, iterations=3, **QUIET)
    rd.index(path, factory="Flat", recall_queries=16, recall_k=8, **QUIET)
    rd.compile(path, codec="fp16", **QUIET)
    rd.suffix(path, **QUIET)
    return path


def loaded(path, **chosen):
    """The store as a language model with constants, which a small walk is enough for."""
    given = {"method": "retomaton", "tau": 4, "lam": 0.6, "knn_temperature": 8.0} | chosen
    lm = load(path, **given)
    settings = replace(lm.retrieval.settings, k=12, max_knns=24)
    return replace(lm, retrieval=replace(lm.retrieval, settings=settings))


def with_network(lm):
    """The same with shares that depend on all that is known before the token."""
    random = np.random.default_rng(3)
    constants = Constants(0.6, 8.0, 4.0)
    bases = Bases(constants, Constants(0.6, 8.0))
    suffixes = lm.point.spec.looks_up
    count = 12 + 2 * suffixes
    features = random.normal(2, 2, (400, count)).astype(np.float32)
    logs = -np.abs(features[:, :6]).astype(np.float32)
    network, _ = train_mixture(features, logs, np.arange(400) > 340)
    assert isinstance(network, MixtureNetwork)
    point = replace(lm.point, mixing=AdaptiveMixing(network, bases, suffixes))
    return replace(lm, point=point)
