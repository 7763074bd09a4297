"""`retomaton build --no-keys`: what comes of tokens alone; keys and the rest can follow."""

import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.errors import BadInput
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.cli.checks import Unchanged, check_refused, check_refused_without_a_trace
from tests.conftest import contents

QUICK = {"cluster": {"algorithm": "none"}, "compile": {"codec": "fp16"}}


@pytest.fixture(scope="module")
def bare(small_store, tmp_path_factory):
    """A store without keys. Alter only copies."""
    path = tmp_path_factory.mktemp("bare") / "a.store"
    rd.build(path, **small_store.settings, no_keys=True)
    return path


def test_it_holds_what_comes_of_tokens(bare, small_store):
    assert [*Store.open(bare).manifest.stages] == [
        "tokenize", "suffix/default", "ngram/default", "statistics"
    ]  # fmt: skip
    store = rd.open(bare)
    assert store.entries == rd.open(small_store.path).entries
    assert store.ngrams().distributions(np.full((1, 4), -1, np.int32)).sum() == pytest.approx(1)
    assert verify(store.store).findings == []


def test_the_models_weights_are_not_needed(small_store, tiny_model, tmp_path, bare):
    lean = shutil.copytree(tiny_model, tmp_path / "lean")
    (lean / "model.safetensors").unlink()
    rd.build(tmp_path / "b.store", **small_store.settings | {"model": str(lean)}, no_keys=True)
    assert rd.open(tmp_path / "b.store").entries == rd.open(bare).entries


def test_a_build_with_keys_adds_the_rest_and_leaves_what_is_there(bare, small_store, tmp_path):
    path = shutil.copytree(bare, tmp_path / "b.store")
    before = {name: data for name, data in contents(path).items() if name != "store.json"}
    rd.build(path, **small_store.settings, **QUICK)
    after = contents(path)
    assert {name: after[name] for name in before} == before
    assert rd.open(path).automaton("none").entries == rd.open(path).entries
    rd.build(tmp_path / "c.store", **small_store.settings, **QUICK)
    stages = [Store.open(store).manifest.stages for store in (path, tmp_path / "c.store")]
    digests = [{name: stage.digest for name, stage in found.items()} for found in stages]
    assert digests[0] == digests[1]


def test_inspect_says_that_there_are_no_keys(bare, command):
    shown = command("inspect", bare).stdout
    assert f"keys       none; `retomaton extract {bare} ...` makes them" in shown
    assert "n-grams of up to 5 tokens" in shown


@pytest.mark.parametrize(
    ("stage", "missing"), [("cluster", "extract"), ("index", "extract"), ("compile", "cluster")]
)
def test_stages_that_need_keys_say_which_command_makes_what_they_lack(
    bare, command, stage, missing
):
    with Unchanged(bare):
        check_refused(command(stage, bare), f"has not been run; run `retomaton {missing} {bare}")


def test_bad_settings_leave_no_trace(small_store, command, tmp_path):
    (tmp_path / "build.toml").write_text("[parts]\nno-keys = true\n[ngram]\norder = 20\n")
    store, flags = tmp_path / "new.store", [*small_store.flags(), "--config"]
    refused = command("build", store, *flags, tmp_path / "build.toml")
    check_refused_without_a_trace(refused, store, "[ngram] order 20: a suffix index of up to 8")


def test_a_dry_run_of_it_is_refused(small_store, tmp_path):
    with pytest.raises(BadInput, match="--no-keys: a dry run times the model"):
        rd.estimate(tmp_path / "new.store", **small_store.settings, no_keys=True)
