"""Training of a small language model, from scratch or from an existing one.

A run may be killed at any moment and started again: it goes on from its last checkpoint. A run
limited by steps, on one thread, ends with the same weights however often that happened. Its
text is held in memory. The result is an ordinary Hugging Face folder.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from retomaton_dist.errors import RetomatonError
from retomaton_dist.lm.failures import memory_guard, silence
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.model import check_device
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.tokenizer import check_vocabulary, wrap
from retomaton_dist.lm.train_checkpoint import Position
from retomaton_dist.lm.train_data import fingerprint_texts, make_stream, split_documents
from retomaton_dist.lm.train_folder import (
    CHECKPOINT,
    TRAINING,
    TrainResult,
    begin,
    finish,
    forget,
    save_into,
)
from retomaton_dist.lm.train_loop import Limit, Trainee, TrainProgress, run, validate
from retomaton_dist.lm.train_optimizers import optimizers_for_new, optimizers_for_tuning
from retomaton_dist.lm.train_start import (
    Start,
    start_anew,
    start_from,
    tuning_context,
)
from retomaton_dist.settings import ModelSettings, TrainSettings

AUTO_MINUTES = 1.25
NEW_RATE, TUNING_RATE = 3e-3, 2e-4


def train(
    settings: TrainSettings,
    texts: Iterable[str],
    out: str | Path,
    progress: Callable[[TrainProgress], None] = lambda _: None,
) -> TrainResult:
    """Train a model on these documents into the folder `out`, or go on with doing so.

    Raises BadInput if `out` holds anything but this very run; if that is done, it is returned.
    What cannot be is refused before anything is written, and a run that fails before its first
    checkpoint leaves nothing behind.
    """
    check_device(_device(settings))
    init = _find_init(settings)
    documents, folder = list(texts), Path(out)
    split_documents(documents, settings.validation, settings.seed)
    new = not (folder / TRAINING).exists()
    done = begin(folder, settings, _inputs(init, documents))
    if done:
        return done
    try:
        return _run(settings, init, documents, folder, progress)
    except RetomatonError:
        if new and not (folder / CHECKPOINT).exists():
            forget(folder)
        raise


def _run(
    settings: TrainSettings,
    init: ModelOutline | None,
    documents: Sequence[str],
    folder: Path,
    progress: Callable[[TrainProgress], None],
) -> TrainResult:
    silence()
    advice = "training ran out of memory: lower --batch-tokens, then --context"
    with _threads(settings.threads), memory_guard(advice):
        start, trainee = _prepare(settings, init, documents, folder)
        end = run(trainee, folder / CHECKPOINT, settings.checkpoint_seconds, progress)
        result = _result(folder, trainee, end)
        save_into(folder, start.save)
    finish(result)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return result


def _find_init(settings: TrainSettings) -> ModelOutline | None:
    if settings.init is None:
        return None
    # Training takes no key: the one that every causal model has leaves the choice free.
    spec, tokenizer = identify(ModelSettings(model=settings.init, key="final_hidden"))
    init = outline(spec)
    check_vocabulary(tokenizer, init.vocabulary)
    tuning_context(init, settings.context)
    return init


def _device(settings: TrainSettings) -> str:
    return settings.device or ("cuda" if torch.cuda.is_available() else "cpu")


def _inputs(init: ModelOutline | None, texts: Sequence[str]) -> dict[str, str | None]:
    inputs: dict[str, str | None] = {"text_fingerprint": fingerprint_texts(texts)}
    if init is not None:
        inputs["init_fingerprint"] = init.spec.identity.weights
        inputs["init_tokenizer"] = init.spec.identity.tokenizer
    return inputs


@contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _prepare(
    settings: TrainSettings, init: ModelOutline | None, texts: Sequence[str], folder: Path
) -> tuple[Start, Trainee]:
    split = split_documents(texts, settings.validation, settings.seed)
    if init is None:
        start = start_anew(settings, split.training, folder)
    else:
        start = start_from(init, settings.context)
    tokenizer = wrap(settings.init or str(folder), start.tokenizer)
    model = start.model.to(_device(settings))
    return start, Trainee(
        model=model,
        optimizers=_optimizers(settings, model),
        training=make_stream(tokenizer, split.training, start.context),
        validation=make_stream(tokenizer, split.validation, start.context),
        rows=max(1, settings.batch_tokens // start.context),
        limit=_limit(settings),
        seed=settings.seed,
        device=_device(settings),
    )


def _optimizers(settings: TrainSettings, model: Any) -> list[torch.optim.Optimizer]:
    if settings.init:
        return optimizers_for_tuning(model, settings.learning_rate or TUNING_RATE)
    return optimizers_for_new(model, settings.learning_rate or NEW_RATE)


def _limit(settings: TrainSettings) -> Limit:
    if settings.steps is None and settings.minutes is None:
        return Limit(seconds=60 * AUTO_MINUTES)
    return Limit(settings.steps or math.inf, 60 * (settings.minutes or math.inf))


def _result(folder: Path, trainee: Trainee, end: Position) -> TrainResult:
    loss, held_out = validate(trainee), trainee.validation
    return TrainResult(
        folder=folder,
        steps=end.step,
        tokens=end.step * trainee.tokens_per_step,
        seconds=end.elapsed,
        perplexity=math.exp(loss),
        bits_per_byte=loss / math.log(2) * len(held_out.tokens) / held_out.bytes,
    )
