"""What training starts from: a new tokenizer and model, or an existing model to fine-tune."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from retomaton_dist.lm.identity import locate_checked
from retomaton_dist.lm.outline import ModelOutline
from retomaton_dist.lm.tokenizer import load_transformers_tokenizer
from retomaton_dist.lm.train_folder import CHECKPOINT, save_into
from retomaton_dist.lm.weights import load_weights
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.settings import TrainSettings

END_OF_TEXT = "<|endoftext|>"
NEW_CONTEXT = 256


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
    if (folder / CHECKPOINT).exists():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    else:
        tokenizer = train_tokenizer(texts, settings.vocabulary)
        tokenizer.model_max_length = context
        save_into(folder, tokenizer.save_pretrained)
    torch.manual_seed(settings.seed)
    return Start(GPT2LMHeadModel(_config(settings, tokenizer, context)), tokenizer, context)


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


def start_from(init: ModelOutline, context: int | None) -> Start:
    """Load the model to fine-tune and its tokenizer; ModelError if it is another by now."""
    source = locate_checked(init.spec)
    tokenizer = load_transformers_tokenizer(source, trust_remote_code=False)
    model = load_weights(source, torch.float32, trust_remote_code=False)
    return Start(model, tokenizer, tuning_context(init, context))


def tuning_context(init: ModelOutline, context: int | None) -> int:
    """The context to fine-tune with; BadInput if it is more than the model reads."""
    limit = init.max_context
    return resolve_windows(context or min(NEW_CONTEXT, limit or NEW_CONTEXT), None, limit)[0]
