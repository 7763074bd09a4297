"""Self-tests of models: keys and logits of a small random one, and training one."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from retomaton_dist.checkup.paths import Numbers, SelfTest
from retomaton_dist.lm.failures import silence
from retomaton_dist.lm.identity import ModelIdentity, ModelSpec
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.source import find_model, fingerprint
from retomaton_dist.lm.train import train
from retomaton_dist.settings import ModelSettings, TrainSettings

SHAPE = {"vocab_size": 300, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
ROWS, TOKENS = 8, 48
STEPS = 5
TEXTS = [f"the key of entry {number} points to entry {number + 1}. " * 20 for number in range(40)]


def model_tests() -> list[SelfTest]:
    """All of them. On a GPU models run in float16 unless told otherwise."""
    return [
        SelfTest("model in float32", _reads("float32"), _reads_plainly, 1e-5, 1e-3),
        SelfTest("model in float16", _reads("float16"), _reads_plainly, None, 2e-2),
        SelfTest("training", _trains, lambda: _trains("cpu"), 0.0, 2e-2),
    ]


def _model() -> Any:
    torch.manual_seed(11)
    return GPT2LMHeadModel(GPT2Config(**SHAPE)).eval()


def _inputs() -> torch.Tensor:
    chosen = torch.Generator().manual_seed(12)
    return torch.randint(0, SHAPE["vocab_size"], (ROWS, TOKENS), generator=chosen)


def _reads(dtype: str) -> Callable[[str], Numbers]:
    """Keys and log-probabilities of a model that is loaded from its folder, as workers do."""

    def on(device: str) -> Numbers:
        silence()
        with tempfile.TemporaryDirectory() as folder:
            _model().save_pretrained(folder)
            spec = _spec(folder, None if device == "cpu" else dtype)
            lm = LanguageModel.load(spec, device)
            keys, logits = lm.keys_and_logits(_inputs())
            shorter = lm.keys(_inputs())
        return _numbers(keys, logits, shorter)

    return on


def _reads_plainly() -> Numbers:
    with torch.inference_mode():
        made = _model().double()(_inputs(), output_hidden_states=True)
    keys = made.hidden_states[-1]
    return _numbers(keys, made.logits, keys)


def _numbers(keys: torch.Tensor, logits: torch.Tensor, again: torch.Tensor) -> Numbers:
    parts = keys, torch.log_softmax(logits.double(), dim=-1), again
    return np.concatenate([part.double().cpu().numpy().ravel() for part in parts])


def _spec(folder: str, dtype: str | None) -> ModelSpec:
    source = find_model(ModelSettings(model=folder))
    identity = ModelIdentity(source.name, source.place, None, fingerprint(source), tokenizer="")
    return ModelSpec(identity, "final_hidden", dtype, trust_remote_code=False)


def _trains(device: str) -> Numbers:
    """The perplexity that some steps of training end with; on one thread always the same."""
    silence()
    settings = TrainSettings(
        steps=STEPS,
        vocabulary=SHAPE["vocab_size"],
        layers=SHAPE["n_layer"],
        width=SHAPE["n_embd"],
        heads=SHAPE["n_head"],
        context=SHAPE["n_positions"],
        batch_tokens=512,
        validation=0.1,
        threads=1,
        device="cpu" if device == "cpu" else "cuda",
    )
    with tempfile.TemporaryDirectory() as folder:
        return np.array([train(settings, TEXTS, Path(folder) / "lm").perplexity])
