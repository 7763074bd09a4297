"""A small network that divides trust among several distributions, and its training."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from retomaton_dist.runtime.progress import part_done

HIDDEN, EPOCHS, PATIENCE, BATCH = 64, 40, 4, 512
RATE, DECAY, SEED = 2e-3, 1e-3, 1
# What has no probability at all must not make a gradient of 0 times infinity.
LEAST_LOG = -1e4


@dataclass(frozen=True, eq=False)
class MixtureNetwork:
    """Standardises features and maps them to shares that sum to 1."""

    net: nn.Sequential
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    def log_shares(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Logarithms of the shares, [rows, distributions]; they sum to 1 as float64."""
        made = self.prepared(features).numpy()
        for number, (weight, bias) in enumerate(self._steps):
            made = (np.maximum(made, 0) if number else made) @ weight + bias
        exact = made.astype(np.float64)
        exact -= exact.max(axis=1, keepdims=True)
        shares: NDArray[np.float64] = exact - np.log(np.exp(exact).sum(axis=1, keepdims=True))
        return shares

    @cached_property
    def _steps(self) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Matrix and offset of each layer: for few rows, calling torch takes longer than this."""
        layers = [layer for layer in self.net if isinstance(layer, nn.Linear)]
        return [
            (layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy())
            for layer in layers
        ]

    def prepared(self, features: NDArray[np.float32]) -> Tensor:
        """Features as the network takes them."""
        return torch.from_numpy((features - self.mean) / self.scale)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that `of` needs."""
        weights = {name: weight.numpy() for name, weight in self.net.state_dict().items()}
        return {**weights, "mean": self.mean, "scale": self.scale}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "MixtureNetwork":
        """The network that `arrays` was taken from."""
        weights = {
            name: torch.from_numpy(np.array(array))
            for name, array in arrays.items()
            if name not in ("mean", "scale")
        }
        outputs = len(weights[max(weights)])
        net = _layers(len(arrays["mean"]), outputs)
        net.load_state_dict(weights)
        return cls(net.eval(), arrays["mean"], arrays["scale"])


def train_mixture(
    features: NDArray[np.float32],
    logs: NDArray[np.float32],
    held: NDArray[np.bool_],
    begin: Sequence[float] | None = None,
    seed: int = SEED,
) -> tuple[MixtureNetwork, dict[str, float]]:
    """Learn shares that make tokens likely; stop when those of `held` rows get no likelier.

    `logs` are the log-probabilities of the tokens under each distribution. Training begins with
    the shares `begin`, whatever the features; equal ones by default.
    """
    torch.manual_seed(seed)
    mean, scale = features[~held].mean(0), features[~held].std(0) + 1e-6
    net = _layers(features.shape[1], logs.shape[1])
    _begin_with(net, begin or [1.0] * logs.shape[1])
    made = MixtureNetwork(net, mean, scale)
    inputs, clipped = made.prepared(features), torch.from_numpy(np.maximum(logs, LEAST_LOG))
    epochs = _fit(made.net, inputs, clipped, torch.from_numpy(held))
    return made, {"rows": len(features), "epochs": epochs}


def _begin_with(net: nn.Sequential, shares: Sequence[float]) -> None:
    last = net[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    last.bias.data = torch.log(torch.tensor(shares))


def _fit(net: nn.Sequential, inputs: Tensor, logs: Tensor, held: Tensor) -> int:
    """Train in place, end with the weights that held-out rows liked best; return their epoch."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    rows = torch.nonzero(~held)[:, 0]
    losses: list[float] = []
    kept = net.state_dict()
    while len(losses) < EPOCHS and len(losses) - _best(losses) <= PATIENCE:
        _epoch(net, optimizer, inputs, logs, rows)
        with torch.inference_mode():
            losses.append(float(_loss(net, inputs[held], logs[held])))
        part_done(len(losses), EPOCHS, "epochs at most")
        if _best(losses) == len(losses):
            kept = copy.deepcopy(net.state_dict())
    net.load_state_dict(kept)
    return _best(losses)


def _best(losses: list[float]) -> int:
    return losses.index(min(losses)) + 1 if losses else 0


def _epoch(
    net: nn.Sequential, optimizer: torch.optim.Optimizer, inputs: Tensor, logs: Tensor, rows: Tensor
) -> None:
    net.train()
    order = rows[torch.randperm(len(rows))]
    for first in range(0, len(order), BATCH):
        batch = order[first : first + BATCH]
        optimizer.zero_grad()
        torch.autograd.backward(_loss(net, inputs[batch], logs[batch]))
        optimizer.step()
    net.eval()


def _loss(net: nn.Sequential, inputs: Tensor, logs: Tensor) -> Tensor:
    shares = torch.log_softmax(net(inputs), dim=-1)
    return -torch.logsumexp(shares + logs, dim=-1).mean()


def _layers(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, outputs),
    )
