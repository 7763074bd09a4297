"""The model comes from the store: its commit, wherever `main` is now; the report needs none."""

import pytest
from huggingface_hub import constants

import retomaton_dist as rd
from retomaton_dist.engine.store_models import store_lm
from retomaton_dist.errors import BadInput, ModelError
from retomaton_dist.settings import LoadSettings
from retomaton_dist.storage.store import Store
from tests.conftest import save_tiny_model
from tests.evaluation.evaluated import write_text
from tests.lm.test_source import COMMITS, cached_hub_model

NAME = "someone/tiny-gpt2"
QUIET = {"workers": 0, "progress": "none"}
GIVEN = {"methods": "lm,retomaton", "tau": "1,inf", "lambda_": 0.3, "knn_temperature": 2.0, "k": 16}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub cache in which `main` is the first of two commits; offline."""
    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    for seed, commit in enumerate(COMMITS):
        folder = save_tiny_model(tmp_path / f"model{seed}", initializer_range=0.02 + seed / 100)
        cached_hub_model(cache, folder, NAME, commit)
    (cache / "models--someone--tiny-gpt2/refs/main").write_text(COMMITS[0])
    return cache / "models--someone--tiny-gpt2"


@pytest.fixture
def built(hub, tmp_path):
    corpus = write_text(tmp_path / "corpus.txt", 3, 80)
    store = tmp_path / "a.store"
    made = {"cluster": {"states": 5}, "compile": {"codec": "fp16"}, "index": {"factory": "Flat"}}
    rd.build(store, corpus=str(corpus), split="line", model=NAME, **QUIET, **made)
    return store


def test_the_store_knows_the_commit_and_eval_goes_on_with_it_when_main_has_moved(
    built, hub, tmp_path
):
    identity = Store.open(built).stage("extract").facts["identity"]
    assert (identity["name"], identity["place"], identity["revision"]) == (NAME, NAME, COMMITS[0])
    (hub / "refs/main").write_text(COMMITS[1])
    text = write_text(tmp_path / "text.txt", 4, 12)
    evaluation = rd.evaluate(built, text=str(text), **GIVEN, **QUIET)
    assert evaluation.settings["model"] == f"{NAME} at {COMMITS[0]}"
    with pytest.raises(BadInput, match=r"is not the one that .* was made with"):
        rd.evaluate(
            built, text=str(text), key_model=NAME, out=str(tmp_path / "o"), **GIVEN, **QUIET
        )


def test_a_model_that_was_moved_is_asked_for_by_its_flag(tmp_path):
    model = save_tiny_model(tmp_path / "model")
    text, store = write_text(tmp_path / "text.txt", 4, 12), tmp_path / "a.store"
    rd.extract(store, corpus=str(text), split="line", model=str(model), **QUIET)
    model.rename(tmp_path / "moved")
    opened = Store.open(store)
    with pytest.raises(ModelError, match=r"no longer at .*/model; name its place with --model"):
        store_lm(opened, LoadSettings())
    store_lm(opened, LoadSettings(model=str(tmp_path / "moved")))


def test_the_report_needs_no_model(built, hub, tmp_path, command):
    text = write_text(tmp_path / "text.txt", 4, 12)
    evaluation = rd.evaluate(built, text=str(text), **GIVEN, **QUIET)
    before = (evaluation.path / "analysis.json").read_bytes()
    hub.rename(tmp_path / "gone")
    with pytest.raises(ModelError, match=r"cannot be used on|does not give it"):
        rd.evaluate(built, text=str(text), out=str(tmp_path / "o"), **GIVEN, **QUIET)
    assert command("report", evaluation.path, "--lambda", "0.3").returncode == 0
    assert (evaluation.path / "analysis.json").read_bytes() == before
