"""The training loop: steps, learning rate, checkpoints and held-out perplexity."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.train_checkpoint import Position, load_checkpoint, save_checkpoint
from retomaton_dist.lm.train_data import TokenStream

WARM_UP = 0.05
LARGEST_GRADIENT = 1.0
VALIDATION_TOKENS = 200_000


@dataclass(frozen=True)
class Limit:
    """When a run ends: after so many steps or seconds, whichever comes first."""

    steps: float = math.inf
    seconds: float = math.inf

    def fraction(self, step: float, elapsed: float) -> float:
        """How much of the run is over, 1 at its end."""
        return min(1.0, max(step / self.steps, elapsed / self.seconds))


@dataclass(frozen=True)
class TrainProgress:
    """Where a run is after a step: `perplexity` is the last one measured on held-out text."""

    step: int
    fraction: float
    loss: float
    tokens: int
    elapsed: float
    perplexity: float | None


@dataclass(frozen=True, eq=False)
class Trainee:
    """A model, what it learns from, and how."""

    model: Any
    optimizers: list[torch.optim.Optimizer]
    training: TokenStream
    validation: TokenStream
    rows: int
    limit: Limit
    seed: int
    device: str

    @property
    def tokens_per_step(self) -> int:
        """Targets that one step learns from."""
        return min(self.rows, self.training.blocks) * self.training.context


def rate_at(fraction: float) -> float:
    """The learning rate as a share of its height: up linearly, then down linearly to 0."""
    return min(fraction / WARM_UP, (1 - fraction) / (1 - WARM_UP))


def run(
    trainee: Trainee,
    checkpoint: Path,
    checkpoint_seconds: float,
    progress: Callable[[TrainProgress], None],
) -> Position:
    """Train to the limit, from the checkpoint if there is one, and return where it ended."""
    position = Position()
    if checkpoint.exists():
        position = load_checkpoint(checkpoint, trainee.model, trainee.optimizers)
    for group in _groups(trainee):
        group["height"] = group["lr"]
    begun = time.monotonic() - position.elapsed
    saved, perplexity = position, None
    while trainee.limit.fraction(position.step, position.elapsed) < 1:
        loss = _step(trainee, position)
        position = Position(position.step + 1, time.monotonic() - begun)
        if position.elapsed - saved.elapsed >= checkpoint_seconds:
            save_checkpoint(checkpoint, trainee.model, trainee.optimizers, position)
            saved, perplexity = position, math.exp(validate(trainee))
        progress(_progress(trainee, position, loss, perplexity))
    return position


def _progress(
    trainee: Trainee, position: Position, loss: float, perplexity: float | None
) -> TrainProgress:
    return TrainProgress(
        step=position.step,
        fraction=trainee.limit.fraction(position.step, position.elapsed),
        loss=loss,
        tokens=position.step * trainee.tokens_per_step,
        elapsed=position.elapsed,
        perplexity=perplexity,
    )


def _groups(trainee: Trainee) -> list[dict[str, Any]]:
    return [group for optimizer in trainee.optimizers for group in optimizer.param_groups]


def _step(trainee: Trainee, position: Position) -> float:
    # In the middle of the step, so that neither the first nor the last has a rate of 0.
    fraction = trainee.limit.fraction(position.step + 0.5, position.elapsed)
    for group in _groups(trainee):
        group["lr"] = group["height"] * rate_at(fraction)
    trainee.model.train()
    rows = trainee.training.batch(position.step, trainee.rows, trainee.seed)
    loss = _loss(trainee, rows, "mean")
    trainee.model.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(trainee.model.parameters(), LARGEST_GRADIENT)
    for optimizer in trainee.optimizers:
        optimizer.step()
    return _finite(loss.item(), position.step)


def _finite(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise ModelError(f"training diverged at step {step}: lower --learning-rate")
    return loss


def _loss(trainee: Trainee, rows: NDArray[np.int64], reduction: str) -> Tensor:
    tokens = torch.from_numpy(rows).to(trainee.device)
    logits = trainee.model(tokens[:, :-1], use_cache=False).logits
    return functional.cross_entropy(
        logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction=reduction
    )


def validate(trainee: Trainee) -> float:
    """Return the mean loss per held-out token, each block read from its own beginning."""
    stream = trainee.validation
    blocks = np.arange(min(stream.blocks, max(1, VALIDATION_TOKENS // stream.context)))
    trainee.model.eval()
    with torch.inference_mode():
        losses = [
            _loss(trainee, stream.block_rows(blocks[first : first + trainee.rows]), "sum").item()
            for first in range(0, len(blocks), trainee.rows)
        ]
    return sum(losses) / (len(blocks) * stream.context)
