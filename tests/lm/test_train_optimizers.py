"""New models learn with Muon inside their layers; all weights have exactly one optimizer."""

import pytest

from retomaton_dist.lm.train_optimizers import optimizers_for_new, optimizers_for_tuning
from tests.lm.tiny import build_model


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


def test_muon_goes_faster_than_adamw_and_neither_lets_weights_of_a_new_model_decay():
    muon, adamw = optimizers_for_new(build_model("gpt2"), 3e-3)
    assert (muon.param_groups[0]["lr"], adamw.param_groups[0]["lr"]) == (pytest.approx(0.02), 3e-3)
    assert muon.param_groups[0]["weight_decay"] == adamw.param_groups[0]["weight_decay"] == 0
