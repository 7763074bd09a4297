"""Training a small language model with AdamW: a new one like GPT-2, or fine-tuning of another.

A run may be killed at any moment: the same call goes on from its last checkpoint. Limited by steps
and on as many threads, it ends with the same weights however often it was killed. The text is held
in memory. The result is an ordinary Hugging Face folder with `training.json` beside the weights.
"""

import hashlib
import io
import math
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from retomaton_dist.errors import BadInput, CorpusError, ModelError
from retomaton_dist.lm.failures import memory_guard, silence
from retomaton_dist.lm.identity import ModelSpec, identify, locate_checked
from retomaton_dist.lm.model import check_device
from retomaton_dist.lm.outline import outline
from retomaton_dist.lm.tokenizer import check_vocabulary, load_transformers_tokenizer, wrap
from retomaton_dist.lm.weights import load_weights
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.settings import ModelSettings, TrainSettings
from retomaton_dist.storage import canonical, files

RECORD, CHECKPOINT, PARTIAL = "training.json", "training.pt", ".new"
STEPS, WARM_UP, LARGEST_GRADIENT, END_OF_TEXT = 2000, 0.1, 1.0, "<|endoftext|>"
# Of new models and of fine-tuning. Short blocks make for more, cheaper steps: good for a new model.
NEW_RATE, TUNING_RATE, NEW_CONTEXT, TUNING_CONTEXT = 3e-3, 2e-4, 128, 256
# GPT-2's activation in one kernel instead of eight; initial weights spread for layers a sixth as
# wide; no dropout, for a few epochs of a small model do not overfit.
NEW_MODEL = {"activation_function": "gelu_pytorch_tanh", "initializer_range": 0.04}
NEW_MODEL |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
# Blocks of a text as rows, one token longer than the context: inputs, and targets one further.
Rows = NDArray[np.int64]
# Called after every step with the steps done, the fraction of the run, and the loss.
Progress = Callable[[int, float, float], None]


@dataclass(frozen=True)
class TrainResult:
    """A finished training; `perplexity` is per token of the held-out text."""

    folder: Path
    steps: int
    seconds: float
    perplexity: float


def train(
    settings: TrainSettings, texts: Iterable[str], out: str | Path,
    progress: Progress = lambda *_: None,
) -> TrainResult:  # fmt: skip
    """Train a model on these documents into the folder `out`, or go on with doing so.

    A finished run is returned as it is. BadInput if `out` holds anything but this very run.
    Nothing is written before the first checkpoint.
    """
    silence()
    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    check_device(device)
    folder, documents = Path(out), [text for text in texts if text]
    training, held_out = hold_out(documents, settings.validation, settings.seed)
    init, context = _find_init(settings)
    state = _resume(folder, _run_of(settings, init, documents))
    if "result" in state:
        return TrainResult(folder, **state["result"])
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads or threads)
    try:
        with memory_guard("training ran out of memory: lower --batch-tokens, then --context"):
            model, tokenizer = _load(init) if init else _new_model(settings, context, training)
            rows, held_rows = (blocks_of(tokenizer, part, context) for part in (training, held_out))
            _optimise(settings, model.to(device), rows, state, folder / CHECKPOINT, progress)
            with torch.inference_mode():
                losses = [_loss(model.eval(), row[None].copy()).item() for row in held_rows]
    finally:
        torch.set_num_threads(threads)
    perplexity = math.exp(sum(losses) / len(losses))
    result = {"steps": state["step"], "seconds": state["seconds"], "perplexity": perplexity}
    with files.clear_errors(folder):
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)
        model.save_pretrained(folder / PARTIAL)
        tokenizer.save_pretrained(folder / PARTIAL)
        for path in sorted((folder / PARTIAL).iterdir()):
            files.write(folder / path.name, path.read_bytes())
        shutil.rmtree(folder / PARTIAL)
    canonical.write(folder / RECORD, {"run": state["run"], "result": result})
    (folder / CHECKPOINT).unlink()
    return TrainResult(folder, **result)


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


def fraction_done(settings: TrainSettings, step: float, seconds: float) -> float:
    """How much of a run is over, by steps or by time, whichever is further."""
    steps = settings.steps or (math.inf if settings.minutes else STEPS)
    return min(1.0, max(step / steps, seconds / (60 * (settings.minutes or math.inf))))


def learning_rate(settings: TrainSettings, fraction: float) -> float:
    """Up linearly, then down linearly to 0."""
    height = settings.learning_rate or (TUNING_RATE if settings.init else NEW_RATE)
    return height * min(fraction / WARM_UP, (1 - fraction) / (1 - WARM_UP))


def _optimise(
    settings: TrainSettings, model: Any, rows: Rows, state: Any, checkpoint: Path, report: Progress
) -> None:
    """Train to the limit, from where `state` is; it is brought up to date and kept on disk."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.1)
    if state["step"]:
        model.load_state_dict(state.pop("model"))
        optimizer.load_state_dict(state.pop("optimizer"))
    saved, begun = state["seconds"], time.monotonic() - state["seconds"]
    while fraction_done(settings, state["step"], state["seconds"]) < 1:
        step = state["step"]
        middle = fraction_done(settings, step + 0.5, state["seconds"])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, middle)
        torch.manual_seed(settings.seed + step)  # so that dropout, too, follows from the step
        loss = _loss(model.train(), batch_of(rows, step, settings.batch_tokens, settings.seed))
        if not math.isfinite(loss.item()):
            raise ModelError(f"training diverged at step {step}: lower --learning-rate")
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        optimizer.step()
        state |= {"step": step + 1, "seconds": time.monotonic() - begun}
        fraction = fraction_done(settings, step + 1, state["seconds"])
        if state["seconds"] - saved >= settings.checkpoint_seconds or fraction == 1:
            saved, data = state["seconds"], io.BytesIO()
            weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, **weights}, data)
            files.write(checkpoint, data.getbuffer())
        report(step + 1, fraction, loss.item())


def _loss(model: Any, rows: Rows) -> torch.Tensor:
    tokens = torch.from_numpy(rows).to(model.device)
    logits = model(tokens[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def _find_init(settings: TrainSettings) -> tuple[ModelSpec | None, int]:
    """The model to fine-tune, if any, and the context; refused where they do not fit."""
    if settings.init is None:
        return None, settings.context or NEW_CONTEXT
    # Training takes no key: the one that every causal model has leaves the choice free.
    spec, tokenizer = identify(ModelSettings(model=settings.init, key="final_hidden"))
    init = outline(spec)
    check_vocabulary(tokenizer, init.vocabulary)
    usual = min(TUNING_CONTEXT, init.max_context or TUNING_CONTEXT)
    return spec, resolve_windows(settings.context or usual, None, init.max_context)[0]


def _load(init: ModelSpec) -> tuple[Any, Any]:
    source = locate_checked(init)
    model = load_weights(source, torch.float32, trust_remote_code=False)
    return model, load_transformers_tokenizer(source, trust_remote_code=False)


def _new_model(settings: TrainSettings, context: int, texts: Sequence[str]) -> tuple[Any, Any]:
    """A model with random weights, and a byte-level BPE tokenizer; both follow from the seed."""
    trained = ByteLevelBPETokenizer()
    chosen = {"vocab_size": settings.vocabulary, "special_tokens": [END_OF_TEXT]}
    trained.train_from_iterator(texts, show_progress=False, **chosen)
    marks = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "model_max_length": context}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, **marks)
    sizes = {"n_embd": settings.width, "n_layer": settings.layers, "n_head": settings.heads}
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    shape = {"vocab_size": len(tokenizer), "n_positions": context, **sizes, **ends}
    torch.manual_seed(settings.seed)
    return GPT2LMHeadModel(GPT2Config(**shape, **NEW_MODEL)), tokenizer


def _run_of(
    settings: TrainSettings, init: ModelSpec | None, texts: Sequence[str]
) -> dict[str, Any]:
    """What tells runs apart: settings, fingerprints of the text and of the model to fine-tune."""
    digests = b"".join(hashlib.sha256(text.encode()).digest() for text in texts)
    run = {**asdict(settings), "text": hashlib.sha256(digests).hexdigest()}
    for changeable in ("threads", "device", "checkpoint_seconds"):
        del run[changeable]
    if init:
        identity = init.identity
        run |= {"init_weights": identity.weights, "init_tokenizer": identity.tokenizer}
    return run


def _resume(folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The state of this run as the folder has it: new, at a checkpoint, or with a result."""
    advice = "choose another --out, or delete it to train from the beginning"
    if (folder / RECORD).exists():
        state = canonical.read(folder / RECORD, advice)
    elif (folder / CHECKPOINT).exists():
        try:
            state = torch.load(folder / CHECKPOINT, weights_only=True, map_location="cpu")
        except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise BadInput(f"{folder / CHECKPOINT} is damaged ({error}); {advice}") from error
    else:
        # A kill may have left a part of the first checkpoint.
        others = [path for path in folder.glob("*") if path.suffix != files.TEMPORARY]
        if others or (folder.exists() and not folder.is_dir()):
            raise BadInput(f"{folder} is neither an empty folder nor one of a training; {advice}")
        state = {"run": run, "step": 0, "seconds": 0.0}
    for name in sorted({*state["run"], *run}):
        there, now = state["run"].get(name), run.get(name)
        if there != now:
            raise BadInput(
                f"{folder} holds another run: {name} is {there!r} there and {now!r} now; {advice}"
            )
    return state
