"""What moves the weights: AdamW, and Muon for the inner matrices of a new model.

Muon takes the momentum of a matrix and steps along the nearest orthogonal matrix, so that every
direction of the layer learns, not the loudest alone. In a minute of training from scratch that
is worth more than any other setting. Pretrained weights stay with AdamW, which made them.
"""

from typing import Any

import torch

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
MUON_BETAS = (0.9, 0.99)
# The height of Muon's rate for each unit of AdamW's.
MUON_RATE = 20 / 3


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
    matrices = [p for p in model.parameters() if p in inner]
    others = [p for p in model.parameters() if p not in inner]
    return [
        torch.optim.Muon(matrices, lr=MUON_RATE * rate, weight_decay=0.0),
        torch.optim.AdamW(others, lr=rate, betas=MUON_BETAS, weight_decay=0.0, fused=True),
    ]
