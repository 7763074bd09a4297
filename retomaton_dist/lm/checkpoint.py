"""A training run's checkpoint: one safetensors file that is there whole or not at all.

It holds weights, the optimizer's two moments of each, and how far the run is. The order of the
text follows from the step, so there is nothing else to keep.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from retomaton_dist.errors import BadInput
from storage import files

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Position:
    """How far a run is: steps done, and seconds of training over all its processes."""

    step: int = 0
    elapsed: float = 0.0


def save_checkpoint(
    path: Path, model: Any, optimizer: torch.optim.Optimizer, position: Position
) -> None:
    """Replace the checkpoint durably."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"weight.{name}"] = parameter.detach().contiguous()
        for moment in MOMENTS:
            tensors[f"{moment}.{name}"] = optimizer.state[parameter][moment].contiguous()
    progress = {"step": str(position.step), "elapsed": repr(position.elapsed)}
    files.write(path, save(tensors, progress))


def load_checkpoint(path: Path, model: Any, optimizer: torch.optim.Optimizer) -> Position:
    """Put model and optimizer back to where the checkpoint was taken, and say where that is."""
    try:
        with safe_open(path, "pt") as file:
            position = _position(file.metadata())
            for name, parameter in model.named_parameters():
                with torch.no_grad():
                    parameter.copy_(file.get_tensor(f"weight.{name}"))
                state = {m: file.get_tensor(f"{m}.{name}") for m in MOMENTS}
                state["step"] = torch.tensor(float(position.step))
                optimizer.state[parameter] = {
                    key: value.to(parameter.device) for key, value in state.items()
                }
    except (SafetensorError, RuntimeError) as error:
        raise BadInput(
            f"the checkpoint {path} is damaged ({error}); delete it to train from the beginning"
        ) from error
    return position


def _position(metadata: dict[str, str]) -> Position:
    return Position(int(metadata["step"]), float(metadata["elapsed"]))
