"""What training starts from: a text in blocks, and a model with its tokenizer.

A new model has GPT-2's architecture at any size, and a byte-level BPE tokenizer of its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from retomaton_dist.errors import CorpusError
from retomaton_dist.lm.identity import identify, locate_checked
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.tokenizer import check_vocabulary, load_transformers_tokenizer, wrap
from retomaton_dist.lm.weights import load_weights
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.settings import ModelSettings, TrainSettings

END_OF_TEXT = "<|endoftext|>"
# Short blocks make for more, cheaper steps, which a new model gains by.
NEW_CONTEXT, TUNING_CONTEXT = 128, 256
# Of a new model's weights; GPT-2's 0.02 is for layers six times as wide.
INITIAL_SPREAD = 0.04
# Blocks of a text as rows, one token longer than the context: inputs, and targets one further.
Rows = NDArray[np.int64]


def hold_out(texts: Sequence[str], share: float, seed: int) -> tuple[list[str], list[str]]:
    """Split documents into those to train on and others, of about this share of the text.

    At least one is held out and one is left; of a single document the end is held out.
    """
    if not texts:
        raise CorpusError("there is no text to train on; check --corpus")
    if len(texts) == 1:
        cut = max(1, round(len(texts[0]) * (1 - share)))
        return [texts[0][:cut]], [texts[0][cut:] or texts[0]]
    order = np.random.default_rng([seed, len(texts)]).permutation(len(texts))
    sizes = np.cumsum([len(texts[i]) for i in order])
    held = min(int(np.searchsorted(sizes, share * sizes[-1])) + 1, len(texts) - 1)
    return [texts[i] for i in sorted(order[held:])], [texts[i] for i in sorted(order[:held])]


def blocks_of(tokenizer: Any, texts: Sequence[str], context: int) -> Rows:
    """Documents end to end, each after its BOS, cut into blocks; shorter if there is less text."""
    wrapped = wrap("the model to train", tokenizer)
    before = [] if wrapped.bos is None else [wrapped.bos]
    after = [] if wrapped.eos in (None, wrapped.bos) else [wrapped.eos]
    parts = [part for ids, _ in wrapped.encode(texts) for part in (before, ids, after)]
    tokens = np.concatenate(parts).astype(np.int64)
    if len(tokens) < 2:
        raise CorpusError("there is no text to train on, or none to hold out; give more text")
    context = min(context, len(tokens) - 1)
    return sliding_window_view(tokens, context + 1)[::context]


def batch_of(rows: Rows, step: int, batch_tokens: int, seed: int) -> Rows:
    """The rows of a step, drawn by seed and step alone; every row at most once per epoch."""
    size = min(max(1, batch_tokens // (rows.shape[1] - 1)), len(rows))
    epoch, place = divmod(step, len(rows) // size)
    order = np.random.default_rng([seed, epoch]).permutation(len(rows))
    return rows[order[place * size : (place + 1) * size]]


def find_init(settings: TrainSettings) -> ModelOutline | None:
    """The model to fine-tune; refused if its tokenizer or its context does not fit."""
    if settings.init is None:
        return None
    # Training takes no key: the one that every causal model has leaves the choice free.
    spec, tokenizer = identify(ModelSettings(model=settings.init, key="final_hidden"))
    init = outline(spec)
    check_vocabulary(tokenizer, init.vocabulary)
    context_of(settings, init)
    return init


def context_of(settings: TrainSettings, init: ModelOutline | None) -> int:
    """Tokens that the model reads at once; BadInput if the model to fine-tune reads fewer."""
    if init is None:
        return settings.context or NEW_CONTEXT
    limit = init.max_context
    usual = min(TUNING_CONTEXT, limit or TUNING_CONTEXT)
    return resolve_windows(settings.context or usual, None, limit)[0]


def start(
    settings: TrainSettings, init: ModelOutline | None, texts: Sequence[str], resumed: str | None
) -> tuple[Any, Any]:
    """Model and tokenizer of transformers before the first step.

    Without a model to fine-tune both are new, unless `resumed` is the tokenizer of a run that
    goes on, as JSON.
    """
    if init is None:
        return _new_model(settings, resumed or train_tokenizer(texts, settings.vocabulary))
    source = locate_checked(init.spec)
    model = load_weights(source, torch.float32, trust_remote_code=False)
    return model, load_transformers_tokenizer(source, trust_remote_code=False)


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> str:
    """Train a byte-level BPE tokenizer; return it as JSON."""
    tokenizer = ByteLevelBPETokenizer()
    special = [END_OF_TEXT]
    tokenizer.train_from_iterator(texts, vocabulary, show_progress=False, special_tokens=special)
    return str(tokenizer.to_str())


def _new_model(settings: TrainSettings, tokenizer: str) -> tuple[Any, Any]:
    context = context_of(settings, None)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer),
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        model_max_length=context,
    )
    torch.manual_seed(settings.seed)
    config = GPT2Config(
        activation_function="gelu_pytorch_tanh",  # GPT-2's, in one kernel instead of eight
        vocab_size=len(fast),
        n_positions=context,
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        initializer_range=INITIAL_SPREAD,
        # A few epochs of a small model do not overfit: dropout would only slow it down.
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=fast.bos_token_id,
        eos_token_id=fast.eos_token_id,
    )
    return GPT2LMHeadModel(config), fast
