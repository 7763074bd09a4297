"""New models learn with Muon inside their layers; all weights have exactly one optimizer."""

import pytest
import torch

from retomaton_dist.lm.train_optimizers import (
    Muon,
    optimizers_for_new,
    optimizers_for_tuning,
    orthogonalised,
)
from tests.lm.tiny import build_model


@pytest.mark.parametrize("shape", [(16, 16), (16, 48), (64, 16)])
def test_orthogonalising_keeps_directions_and_levels_their_strength(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, before, right = torch.linalg.svd(matrix, full_matrices=False)
    assert before.max() > 2 * before.min()
    levelled = left.T @ orthogonalised(matrix) @ right.T
    strengths = levelled.diagonal()
    assert strengths.min() > 0.6
    assert strengths.max() < 1.3
    torch.testing.assert_close(levelled, torch.diag(strengths), atol=1e-4, rtol=0)


@pytest.mark.parametrize("make", [optimizers_for_new, optimizers_for_tuning])
def test_every_weight_has_one_optimizer(make):
    model = build_model("gpt2")
    groups = [group for optimizer in make(model, 1e-3) for group in optimizer.param_groups]
    owned = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(owned) == sorted(id(parameter) for parameter in model.parameters())


def test_muon_moves_the_matrices_of_the_layers_and_nothing_else():
    model = build_model("gpt2")
    muon, _ = optimizers_for_new(model, 1e-3)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    moved = {
        names[id(parameter)].rsplit(".", 3)[-2] for parameter in muon.param_groups[0]["params"]
    }
    assert moved == {"c_attn", "c_proj", "c_fc"}


def test_muon_finds_the_bottom_of_a_bowl():
    torch.manual_seed(0)
    target, matrix = torch.randn(8, 24), torch.nn.Parameter(torch.zeros(8, 24))
    muon = Muon([matrix], lr=0.1)
    for step in range(200):
        muon.param_groups[0]["lr"] = 0.1 * (1 - step / 200)
        muon.zero_grad()
        (matrix - target).square().sum().backward()
        muon.step()
    assert (matrix - target).abs().max() < 0.05
