"""A training run's checkpoint: one safetensors file that is there whole or not at all.

It holds weights, what the optimizers keep of each, and how far the run is. The order of the
text follows from the step, so there is nothing else to keep.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from retomaton_dist.errors import BadInput
from retomaton_dist.storage import files

Optimizers = Sequence[torch.optim.Optimizer]

# What AdamW and Muon keep of each weight.
STATES = ("exp_avg", "exp_avg_sq", "step", "momentum")


@dataclass(frozen=True)
class Position:
    """How far a run is: steps done, and seconds of training over all its processes."""

    step: int = 0
    elapsed: float = 0.0


def save_checkpoint(path: Path, model: Any, optimizers: Optimizers, position: Position) -> None:
    """Replace the checkpoint durably."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"weight.{name}"] = parameter.detach().contiguous()
        state = _owner(optimizers, parameter).state[parameter]
        tensors |= {f"{key}.{name}": value.contiguous() for key, value in state.items()}
    progress = {"step": str(position.step), "elapsed": repr(position.elapsed)}
    files.write(path, save(tensors, progress))


def load_checkpoint(path: Path, model: Any, optimizers: Optimizers) -> Position:
    """Put model and optimizers back to where the checkpoint was taken, and say where that is."""
    try:
        with safe_open(path, "pt") as file:
            names = set(file.keys())
            for name, parameter in model.named_parameters():
                with torch.no_grad():
                    parameter.copy_(file.get_tensor(f"weight.{name}"))
                _owner(optimizers, parameter).state[parameter] = {
                    key: file.get_tensor(f"{key}.{name}").to(parameter.device)
                    for key in STATES
                    if f"{key}.{name}" in names
                }
            return _position(file.metadata())
    except (SafetensorError, RuntimeError) as error:
        raise BadInput(
            f"the checkpoint {path} is damaged ({error}); delete it to train from the beginning"
        ) from error


def _owner(optimizers: Optimizers, parameter: Tensor) -> torch.optim.Optimizer:
    groups = ((o, group) for o in optimizers for group in o.param_groups)
    return next(o for o, group in groups if any(p is parameter for p in group["params"]))


def _position(metadata: dict[str, str]) -> Position:
    return Position(int(metadata["step"]), float(metadata["elapsed"]))
