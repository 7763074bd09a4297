"""Whoever loads a model loads the very one that was identified, or says so and stops."""

import dataclasses
import json
import pickle
import shutil
import socket

import pytest

from retomaton_dist.errors import DamagedStore, ModelError
from retomaton_dist.lm.identity import (
    ModelIdentity,
    identify,
    load_tokenizer,
    locate,
    locate_checked,
)
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.outline import outline
from retomaton_dist.lm.source import find_model, fingerprint
from retomaton_dist.settings import ModelSettings
from tests.conftest import ROOT, run_python
from tests.lm.test_source import COMMITS, cached_hub_model
from tests.lm.tiny import build_model, byte_level_tokenizer, save_model

HUB_NAME = "someone/tiny-gpt2"
END = "<|endoftext|>"


def save(folder, **overrides):
    byte_level_tokenizer(bos_token=END, eos_token=END).save_pretrained(folder)
    return save_model("gpt2", folder, **overrides)


def spec_of(model, **settings):
    return identify(ModelSettings(model=str(model), **settings))[0]


def load(spec):
    """As workers do: from what was sent to them."""
    sent = pickle.loads(pickle.dumps(spec))
    return LanguageModel.load(sent, "cpu"), load_tokenizer(sent)


@pytest.fixture
def folder(tmp_path):
    return save(tmp_path / "model")


def test_the_identity_is_of_weights_and_tokenizer(folder):
    spec, tokenizer = identify(
        ModelSettings(model=str(folder), key="final_hidden", dtype="float32")
    )
    assert spec.identity == ModelIdentity(
        name=str(folder),
        place=str(folder),
        revision=None,
        weights=fingerprint(find_model(ModelSettings(model=str(folder)))),
        tokenizer=tokenizer.fingerprint,
    )
    assert (spec.key, spec.dtype, spec.trust_remote_code) == ("final_hidden", "float32", False)


def test_what_was_identified_is_loaded(folder):
    spec = spec_of(folder)
    model, tokenizer = load(spec)
    assert (model.name, model.dimension) == (str(folder), 16)
    assert tokenizer.fingerprint == spec.identity.tokenizer


def test_a_tokenizer_alone_is_identified_without_weights(folder):
    (folder / "model.safetensors").unlink()
    spec, tokenizer = identify(ModelSettings(model=str(folder)), weights=False)
    assert spec.identity.weights is None
    assert load_tokenizer(spec).fingerprint == tokenizer.fingerprint


def refused(call, spec, what):
    with pytest.raises(ModelError, match=what) as caught:
        call(spec)
    message = str(caught.value)
    assert socket.gethostname() in message
    assert spec.identity.place in message
    assert "--model" in message
    assert "\n" not in message


def test_other_weights_at_the_same_place_are_refused(folder):
    spec = spec_of(folder)
    model = build_model("gpt2")
    model.transformer.h[0].mlp.c_fc.bias.data[0] += 1
    model.save_pretrained(folder)
    refused(lambda spec: LanguageModel.load(spec, "cpu"), spec, "other weights or config")
    refused(locate_checked, spec, "other weights or config")


def test_another_config_at_the_same_place_is_refused(folder):
    spec = spec_of(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"layer_norm_epsilon": 0.1}))
    refused(lambda spec: LanguageModel.load(spec, "cpu"), spec, "other weights or config")


def test_another_tokenizer_at_the_same_place_is_refused(folder):
    spec = spec_of(folder)
    byte_level_tokenizer(vocabulary=270, bos_token=END, eos_token=END).save_pretrained(folder)
    refused(load_tokenizer, spec, "other tokenizer")


def test_another_beginning_of_documents_is_another_tokenizer(folder):
    spec = spec_of(folder)
    byte_level_tokenizer().save_pretrained(folder)
    refused(load_tokenizer, spec, "other tokenizer")


def test_a_place_that_this_machine_does_not_have_is_said_so(folder):
    spec = spec_of(folder)
    folder.rename(folder.parent / "elsewhere")
    for call in (locate, outline, load_tokenizer, locate_checked):
        with pytest.raises(ModelError, match="no such file or folder") as caught:
            call(spec)
        assert socket.gethostname() in str(caught.value)
        assert str(folder) in str(caught.value)


LOAD = """
import pickle, sys
from retomaton_dist.lm.identity import load_tokenizer
from retomaton_dist.lm.model import LanguageModel
spec = pickle.loads(bytes.fromhex(sys.argv[1]))
load_tokenizer(spec)
print(LanguageModel.load(spec, "cpu").dimension)
"""


def test_a_relative_path_is_the_same_model_in_another_working_directory(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    spec = spec_of("model")
    assert (spec.identity.name, spec.identity.place) == ("model", str(folder))
    assert folder.parent != ROOT
    done = run_python("-c", LOAD, pickle.dumps(spec).hex())
    assert (done.stdout, done.stderr) == ("16\n", "")


@pytest.fixture
def two_commits(folder, tmp_path, monkeypatch):
    """A cache of the hub with two commits of a model, offline; `main` is the second, wider one."""
    from huggingface_hub import constants

    cache = tmp_path / "home" / "hub"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    cached_hub_model(cache, folder, HUB_NAME, COMMITS[0])
    wider = save(tmp_path / "wider", n_embd=32)
    byte_level_tokenizer(vocabulary=270).save_pretrained(wider)
    cached_hub_model(cache, wider, HUB_NAME, COMMITS[1])
    return cache


def test_a_hub_model_is_identified_by_its_commit(two_commits):
    first, second = spec_of(HUB_NAME, revision=COMMITS[0]), spec_of(HUB_NAME)
    assert [(i.place, i.revision) for i in (first.identity, second.identity)] == [
        (HUB_NAME, COMMITS[0]),
        (HUB_NAME, COMMITS[1]),
    ]
    assert [load(spec)[0].dimension for spec in (first, second)] == [16, 32]
    assert [outline(spec).dimension for spec in (first, second)] == [16, 32]


def test_what_main_was_is_loaded_after_it_has_moved(two_commits):
    main = two_commits / "models--someone--tiny-gpt2" / "refs" / "main"
    main.write_text(COMMITS[0])
    spec = spec_of(HUB_NAME)
    main.write_text(COMMITS[1])
    model, tokenizer = load(spec)
    assert (model.dimension, tokenizer.fingerprint) == (16, spec.identity.tokenizer)


def test_a_folder_with_the_name_of_the_hub_model_is_not_mistaken_for_it(two_commits, folder):
    spec = spec_of(HUB_NAME)
    shutil.copytree(folder, folder.parent / HUB_NAME)
    done = run_python(
        "-c",
        "import os, sys; os.chdir(sys.argv[2])" + LOAD,
        pickle.dumps(spec).hex(),
        folder.parent,
        env={
            "PYTHONPATH": str(ROOT),
            "HF_HOME": str(two_commits.parent),
            "HF_HUB_OFFLINE": "1",
        },
    )
    assert (done.stdout, done.stderr) == ("32\n", "")


def test_a_cache_without_the_commit_is_said_so(two_commits):
    spec = spec_of(HUB_NAME)
    shutil.rmtree(two_commits / "models--someone--tiny-gpt2" / "snapshots" / COMMITS[1])
    with pytest.raises(ModelError, match=f"at {COMMITS[1]} cannot be used on ") as caught:
        load_tokenizer(spec)
    assert socket.gethostname() in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_identity_is_kept_as_json(two_commits, folder):
    whole, commit = spec_of(folder).identity, spec_of(HUB_NAME).identity
    for identity in (whole, commit, dataclasses.replace(whole, weights=None)):
        assert ModelIdentity.from_facts(json.loads(json.dumps(identity.as_facts()))) == identity


@pytest.mark.parametrize("facts", [None, [], "gpt2", {}, {"name": "gpt2"}, 7])
def test_facts_that_are_no_identity_are_damage(facts):
    with pytest.raises(DamagedStore, match="says of its model is damaged"):
        ModelIdentity.from_facts(facts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", None),
        ("name", 7),
        ("place", "relative/path"),
        ("place", None),
        ("place", ["/a"]),
        ("revision", "main"),
        ("revision", ""),
        ("revision", COMMITS[0]),
        ("weights", "abc"),
        ("weights", 1),
        ("tokenizer", None),
        ("tokenizer", "A" * 64 + "\n"),
        ("surplus", "x"),
    ],
)
def test_facts_with_a_malformed_part_are_damage(name, value):
    facts = ModelIdentity("tiny", "/models/tiny", None, "0" * 64, "1" * 64).as_facts()
    with pytest.raises(DamagedStore, match="says of its model is damaged") as caught:
        ModelIdentity.from_facts(facts | {name: value})
    assert "\n" not in str(caught.value)
