"""Weights come from whole files, without code; what is amiss is seen without loading them."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.outline import outline
from tests.lm.tiny import build_model, random_ids, save_model, spec_of


def load(folder):
    return LanguageModel.load(spec_of(folder), "cpu")


def refused(folder, message):
    """Both by who plans and by who loads."""
    for look in (outline, lambda spec: LanguageModel.load(spec, "cpu")):
        with pytest.raises(ModelError, match=message) as caught:
            look(spec_of(folder))
        assert "\n" not in str(caught.value)


def test_half_precision_weights_are_read_as_float32_in_eval_mode(tmp_path):
    build_model("llama").half().save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float16"
    lm = load(tmp_path)
    assert {p.dtype for p in lm.model.parameters()} == {torch.float32}
    assert not lm.model.training


@pytest.mark.parametrize("is_zip", [True, False])
def test_weights_of_older_checkpoints_load_without_pickle_code(tmp_path, is_zip):
    model = build_model("gpt2")
    model.config.save_pretrained(tmp_path)
    file = tmp_path / "pytorch_model.bin"
    torch.save(model.state_dict(), file, _use_new_zipfile_serialization=is_zip)
    assert outline(spec_of(tmp_path)).dimension == 16
    ids = random_ids(1, 5)
    with torch.inference_mode():
        torch.testing.assert_close(load(tmp_path).keys_and_logits(ids)[1], model(ids).logits)


class Payload:
    """What a malicious checkpoint holds: code that unpickling would run."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def test_code_hidden_in_a_checkpoint_never_runs(tmp_path):
    build_model("gpt2").config.save_pretrained(tmp_path)
    torch.save({"weights": Payload(tmp_path / "ran")}, tmp_path / "pytorch_model.bin")
    refused(tmp_path, r"weights of model .*pytorch_model.bin .* convert it to safetensors")
    assert not (tmp_path / "ran").exists()


def test_missing_weights_are_an_error_rather_than_random(tmp_path):
    save_model("gpt2", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["transformer.h.1.mlp.c_fc.weight"], weights["transformer.h.1.mlp.c_fc.bias"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights .*c_fc.bias and 1 more"):
        load(tmp_path)


def test_weights_of_another_shape_are_an_error_rather_than_random(tmp_path):
    save_model("gpt2", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 200}))
    with pytest.raises(ModelError, match=r"another shape \(transformer.wte.weight"):
        load(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 100, -100, -1])
def test_weights_cut_short_are_an_error(tmp_path, kept):
    save_model("gpt2", tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    refused(tmp_path, "weights of model")


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("kept", [0, 1, 1000, -100])
def test_weights_of_older_checkpoints_cut_short_are_an_error(tmp_path, is_zip, kept):
    model, file = build_model("gpt2"), tmp_path / "pytorch_model.bin"
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), file, _use_new_zipfile_serialization=is_zip)
    file.write_bytes(file.read_bytes()[:kept])
    refused(tmp_path, "weights of model")


def test_a_missing_part_of_the_weights_is_named(tmp_path):
    build_model("gpt2").save_pretrained(tmp_path, max_shard_size="10KB")
    assert outline(spec_of(tmp_path)).dimension == 16
    parts = sorted(tmp_path.glob("*.safetensors"))
    parts[1].unlink()
    refused(tmp_path, rf"lacks 1 of {len(parts)} files .*{parts[1].name}.*download complete")


@pytest.mark.parametrize("index", ["", "[]", "{}", '{"weight_map": {"a": 1}}'])
def test_a_damaged_index_of_the_weights_is_an_error(tmp_path, index):
    build_model("gpt2").save_pretrained(tmp_path, max_shard_size="10KB")
    (tmp_path / "model.safetensors.index.json").write_text(index)
    refused(tmp_path, "weights of model|files of weights")


@pytest.mark.parametrize("suffix", ["bin", "safetensors"])
def test_files_that_are_not_loaded_may_hold_anything(tmp_path, suffix):
    """As training_args.bin does, which the Trainer of transformers leaves."""
    model = build_model("gpt2")
    model.save_pretrained(tmp_path)
    if suffix == "bin":
        torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
        (tmp_path / "model.safetensors").unlink()
    (tmp_path / f"beside.{suffix}").write_bytes(b"anything")
    assert outline(spec_of(tmp_path)).dimension == load(tmp_path).dimension == 16


def test_an_index_of_weights_in_another_format_is_no_matter(tmp_path):
    """The hub's folders have both, and of weights only safetensors are fetched."""
    save_model("gpt2", tmp_path)
    index = {"weight_map": {"lm_head": "pytorch_model-00001-of-00002.bin"}}
    for name in ("pytorch_model.bin", "model.safetensors"):
        (tmp_path / f"{name}.index.json").write_text(json.dumps(index))
    assert outline(spec_of(tmp_path)).dimension == load(tmp_path).dimension == 16
