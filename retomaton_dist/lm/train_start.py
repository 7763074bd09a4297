"""What training starts from: a new tokenizer and model, or an existing model to fine-tune."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from retomaton_dist.errors import BadInput
from retomaton_dist.lm.durable_folder import save_into
from retomaton_dist.lm.model import load_weights
from retomaton_dist.lm.shape import shape_of
from retomaton_dist.lm.source import find_model
from retomaton_dist.lm.tokenizer import check_vocabulary, load_transformers_tokenizer, wrap
from retomaton_dist.lm.train_record import CHECKPOINT
from retomaton_dist.settings import TrainSettings
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.settings import ModelSettings

END_OF_TEXT = "<|endoftext|>"
NEW_CONTEXT = 256
LEAST_VOCABULARY = 257


@dataclass(frozen=True, eq=False)
class Start:
    """A model and its tokenizer, both of transformers, and the context to train with."""

    model: Any
    tokenizer: Any
    context: int

    def save(self, folder: Path) -> None:
        """Write both as `from_pretrained` reads them."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def start_anew(settings: TrainSettings, texts: Sequence[str], folder: Path) -> Start:
    """Make a tokenizer from these texts, or take that of a resumed run, and a random model."""
    context = settings.context or NEW_CONTEXT
    _check_new(settings, context)
    if (folder / CHECKPOINT).exists():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    else:
        tokenizer = train_tokenizer(texts, settings.vocabulary)
        tokenizer.model_max_length = context
        save_into(folder, tokenizer.save_pretrained)
    torch.manual_seed(settings.seed)
    return Start(GPT2LMHeadModel(_config(settings, tokenizer, context)), tokenizer, context)


def _check_new(settings: TrainSettings, context: int) -> None:
    resolve_windows(context, None, None)
    if settings.vocabulary < LEAST_VOCABULARY:
        raise BadInput(
            f"vocabulary {settings.vocabulary} is too small: a byte-level tokenizer needs "
            f"{LEAST_VOCABULARY} tokens or more"
        )
    if min(settings.layers, settings.heads, settings.width) < 1 or settings.width % settings.heads:
        raise BadInput(
            f"width {settings.width} must be a multiple of heads {settings.heads}, and layers "
            f"{settings.layers} at least 1"
        )


def _config(settings: TrainSettings, tokenizer: Any, context: int) -> GPT2Config:
    # A few epochs of a small model do not overfit: dropout would only slow it down. The
    # activation is GPT-2's, in one kernel instead of eight.
    return GPT2Config(
        activation_function="gelu_pytorch_tanh",
        vocab_size=len(tokenizer),
        n_positions=context,
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """Train a byte-level BPE tokenizer whose one special token is both BOS and EOS."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=END_OF_TEXT, eos_token=END_OF_TEXT
    )


def start_from(settings: TrainSettings) -> Start:
    """Load the model to fine-tune and its tokenizer, or raise ModelError if they do not match."""
    assert settings.init is not None
    source = find_model(ModelSettings(model=settings.init))
    tokenizer = load_transformers_tokenizer(source, trust_remote_code=False)
    model = load_weights(source, torch.float32, trust_remote_code=False)
    shape = shape_of(model.config, source)
    check_vocabulary(wrap(source.name, tokenizer), shape.vocabulary)
    wanted = settings.context or min(NEW_CONTEXT, shape.max_context or NEW_CONTEXT)
    return Start(model, tokenizer, resolve_windows(wanted, None, shape.max_context)[0])
