"""What moves the weights: AdamW, and Muon for the inner matrices of a new model.

Muon takes the momentum of a matrix and steps along the nearest orthogonal matrix, so that every
direction of the layer learns, not the loudest alone. In a minute of training from scratch that
is worth more than any other setting. Pretrained weights stay with AdamW, which made them.

It is our own because `torch.optim.Muon` computes in bfloat16, which dies with SIGILL on some CPUs
and took three times as long where it is emulated (AVX2); the scaling by shape is torch's.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
MUON_BETAS = (0.9, 0.99)
MUON_MOMENTUM = 0.95
# The height of Muon's rate for each unit of AdamW's.
MUON_RATE = 20 / 3
# Of the quintic iteration that brings all singular values near 1 (Jordan et al., 2024).
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised. Parameters must be matrices."""

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every matrix once along its orthogonalised momentum."""
        assert closure is None
        for group in self.param_groups:
            for matrix in group["params"]:
                self._move(matrix, group["lr"])

    def _move(self, matrix: Tensor, rate: float) -> None:
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        assert matrix.grad is not None
        momentum = state["momentum"].lerp_(matrix.grad, 1 - MUON_MOMENTUM)
        direction = orthogonalised(matrix.grad.lerp(momentum, MUON_MOMENTUM))
        rows, columns = matrix.shape
        scale = max(1.0, rows / columns) ** 0.5
        matrix.add_(direction, alpha=-rate * scale)


def orthogonalised(matrix: Tensor) -> Tensor:
    """Return about the orthogonal matrix that is nearest, by Newton-Schulz iteration."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / (wide.norm() + 1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = wide @ wide.T
        wide = torch.addmm(a * wide, b * gram + c * gram @ gram, wide)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T


def optimizers_for_tuning(model: Any, rate: float) -> list[torch.optim.Optimizer]:
    """AdamW alone; matrices decay, biases and the gains of norms do not."""
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return [torch.optim.AdamW(groups, lr=rate, betas=BETAS, fused=True)]


def optimizers_for_new(model: Any, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, biases and norms."""
    inner = {p for p in model.transformer.h.parameters() if p.ndim > 1}
    others = [p for p in model.parameters() if p not in inner]
    return [
        Muon([p for p in model.parameters() if p in inner], lr=MUON_RATE * rate),
        torch.optim.AdamW(others, lr=rate, betas=MUON_BETAS, weight_decay=0.0, fused=True),
    ]
