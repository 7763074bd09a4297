"""Training a small language model with AdamW, from scratch or from an existing model.

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

import torch

from retomaton_dist.errors import BadInput, ModelError
from retomaton_dist.lm.failures import memory_guard, silence
from retomaton_dist.lm.model import check_device
from retomaton_dist.lm.outline import ModelOutline
from retomaton_dist.lm.train_start import (
    Rows,
    batch_of,
    blocks_of,
    context_of,
    find_init,
    hold_out,
    start,
)
from retomaton_dist.settings import TrainSettings
from retomaton_dist.storage import canonical, files

RECORD, CHECKPOINT, PARTIAL = "training.json", "training.pt", ".new"
STEPS, WARM_UP, LARGEST_GRADIENT = 2000, 0.1, 1.0
NEW_RATE, TUNING_RATE = 3e-3, 2e-4
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
    settings: TrainSettings,
    texts: Iterable[str],
    out: str | Path,
    progress: Progress = lambda *_: None,
) -> TrainResult:
    """Train a model on these documents into the folder `out`, or go on with doing so.

    A finished run is returned as it is. BadInput if `out` holds anything but this very run.
    Nothing is written before the first checkpoint.
    """
    silence()
    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    check_device(device)
    folder, documents, init = Path(out), [text for text in texts if text], find_init(settings)
    training, held_out = hold_out(documents, settings.validation, settings.seed)
    state = _resume(folder, _run_of(settings, init, documents))
    if "result" in state:
        return TrainResult(folder, **state["result"])
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads or threads)
    try:
        with memory_guard("training ran out of memory: lower --batch-tokens, then --context"):
            model, tokenizer = start(settings, init, training, state.get("tokenizer"))
            state["tokenizer"] = tokenizer.backend_tokenizer.to_str()
            context = context_of(settings, init)
            rows, held_rows = (blocks_of(tokenizer, part, context) for part in (training, held_out))
            _optimise(settings, model.to(device), rows, state, folder / CHECKPOINT, progress)
            with torch.inference_mode():
                losses = [_loss(model.eval(), row[None].copy()).item() for row in held_rows]
    finally:
        torch.set_num_threads(threads)
    perplexity = math.exp(sum(losses) / len(losses))
    result = {"steps": state["step"], "seconds": state["seconds"], "perplexity": perplexity}
    _publish(folder, {"run": state["run"], "result": result}, model, tokenizer)
    return TrainResult(folder, **result)


def _optimise(
    settings: TrainSettings,
    model: Any,
    rows: Rows,
    state: Any,
    checkpoint: Path,
    progress: Progress,
) -> None:
    """Train to the limit, from where `state` is; it is brought up to date and kept on disk."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.1)
    if state["step"]:
        model.load_state_dict(state.pop("model"))
        optimizer.load_state_dict(state.pop("optimizer"))
    saved, begun = state["seconds"], time.monotonic() - state["seconds"]
    while fraction_done(settings, state["step"], state["seconds"]) < 1:
        step = state["step"]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(
                settings, fraction_done(settings, step + 0.5, state["seconds"])
            )
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
        progress(step + 1, fraction, loss.item())


def fraction_done(settings: TrainSettings, step: float, seconds: float) -> float:
    """How much of a run is over, by steps or by time, whichever is further."""
    steps = settings.steps or (math.inf if settings.minutes else STEPS)
    return min(1.0, max(step / steps, seconds / (60 * (settings.minutes or math.inf))))


def learning_rate(settings: TrainSettings, fraction: float) -> float:
    """Up linearly, then down linearly to 0."""
    height = settings.learning_rate or (TUNING_RATE if settings.init else NEW_RATE)
    return height * min(fraction / WARM_UP, (1 - fraction) / (1 - WARM_UP))


def _loss(model: Any, rows: Rows) -> torch.Tensor:
    tokens = torch.from_numpy(rows).to(model.device)
    logits = model(tokens[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def _run_of(
    settings: TrainSettings, init: ModelOutline | None, texts: Sequence[str]
) -> dict[str, Any]:
    """What tells runs apart: settings, fingerprints of the text and of the model to fine-tune."""
    digests = b"".join(hashlib.sha256(text.encode()).digest() for text in texts)
    run = {**asdict(settings), "text": hashlib.sha256(digests).hexdigest()}
    for changeable in ("threads", "device", "checkpoint_seconds"):
        del run[changeable]
    if init:
        identity = init.spec.identity
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


def _publish(folder: Path, record: Any, *saved: Any) -> None:
    """Put model and tokenizer into the folder, each file whole or not at all; the record last."""
    with files.clear_errors(folder):
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)
        for one in saved:
            one.save_pretrained(folder / PARTIAL)
        for path in sorted((folder / PARTIAL).iterdir()):
            files.write(folder / path.name, path.read_bytes())
        shutil.rmtree(folder / PARTIAL)
    canonical.write(folder / RECORD, record)
    (folder / CHECKPOINT).unlink()
