"""One store, any LM with its tokenizer: keys from a small model, probabilities from another."""

import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.errors import BadInput, ConfigMismatch, ModelError
from retomaton_dist.storage.store import Store
from tests.cli.checks import check_refused
from tests.conftest import TINY_CONTEXT
from tests.generation.stores import QUIET, loaded, save_model
from tests.lm.tiny import build_model, byte_level_tokenizer

END = "<|endoftext|>"
WEIGHT = 0.6


def save_large(folder, layers=3):
    """A model with the tokenizer of `save_model("gpt2")`, but other sizes and windows."""
    tokenizer = byte_level_tokenizer(END, bos_token=END, eos_token=END)
    shape = {"n_layer": layers, "n_embd": 24, "n_positions": TINY_CONTEXT // 2}
    model = build_model("gpt2", len(tokenizer), **shape, bos_token_id=0, eos_token_id=0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A small and a large model with one tokenizer."""
    folder = tmp_path_factory.mktemp("models")
    return save_model("gpt2", folder / "small"), save_large(folder / "large")


@pytest.fixture(scope="module")
def corpus(lines, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "lines.txt"
    path.write_text("\n".join(lines[:120]) + "\n")
    return path


@pytest.fixture(scope="module")
def build(corpus):
    def make(path, **models):
        chosen = {name: str(place) for name, place in models.items()}
        parts = {"cluster": {"states": 20, "iterations": 2}, "index": {"factory": "Flat"}}
        rd.build(
            path,
            corpus=str(corpus),
            split="line",
            context=16,
            stride=6,
            compile={"codec": "fp16"},
            **parts,
            **chosen,
            **QUIET,
        )
        return path

    return make


@pytest.fixture(scope="module")
def stores(models, build, tmp_path_factory):
    """Stores whose keys are the small model's: alone, and built for the large one."""
    folder, (small, large) = tmp_path_factory.mktemp("stores"), models
    alone = build(folder / "alone", model=small)
    paired = build(folder / "paired", model=large, key_model=small)
    return alone, paired


@pytest.fixture(scope="module")
def texts(lines):
    # The first is longer than any window.
    return [" ".join(lines[300:312]), *lines[320:323]]


def test_keys_are_the_small_models_and_both_models_are_recorded(stores, models, command):
    alone, paired = (Store.open(path).stage("extract") for path in stores)
    assert paired.facts["identity"] == alone.facts["identity"]
    assert paired.facts["lm"]["place"] == str(models[1])
    assert "lm" not in alone.facts
    shown = command("inspect", stores[1]).stdout
    assert f"LM         {models[1]}" in shown
    keys = [np.asarray(rd.open(path).keys[:100]) for path in stores]
    assert np.array_equal(*keys)


def test_p_is_mixed_of_the_large_models_p_and_the_small_models_walk(stores, texts):
    alone, paired = (loaded(path, lambda_=WEIGHT) for path in stores)
    plain = rd.load(stores[1], method="lm")
    assert plain.key_model is None
    for small, mixed, large in zip(
        alone.score(texts), paired.score(texts), plain.score(texts), strict=True
    ):
        assert np.array_equal(mixed.states, small.states)
        assert np.array_equal(mixed.searched, small.searched)
        assert np.allclose(mixed.log_lm, large.log_lm, atol=1e-6)
        p_walk = np.exp(small.log_p) - (1 - WEIGHT) * np.exp(small.log_lm)
        expected = (1 - WEIGHT) * np.exp(large.log_lm) + p_walk
        assert np.exp(mixed.log_p) == pytest.approx(expected, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("method", [None, "retomaton"])
def test_generation_steps_both_models_and_reports_what_scoring_gives(stores, lines, method):
    given = {"method": None, "tau": None, "lambda_": None, "knn_temperature": None}
    lm = loaded(stores[1], **({} if method else given))
    assert lm.key_model is not None
    prompts = [" ".join(lines[300:305])[:90], lines[310][:12]]
    drafted = lm.generate(prompts, max_new_tokens=40)
    undrafted = lm.generate(prompts, max_new_tokens=40, draft=0)
    for one, other, prompt in zip(drafted, undrafted, prompts, strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert one.log_p == pytest.approx(other.log_p, abs=1e-4)
        tokens = np.concatenate([one.prompt_tokens, one.tokens])
        (scored,) = lm.score([tokens])
        assert one.prompt.startswith(prompt[:5])
        assert one.log_p == pytest.approx(scored.log_p[-len(one.tokens) :], abs=1e-4)
        assert one.log_lm == pytest.approx(scored.log_lm[-len(one.tokens) :], abs=1e-4)
        assert np.array_equal(one.states, scored.states[-len(one.tokens) :])


def test_another_lm_can_be_named_whenever_a_store_is_used(stores, models, texts, tmp_path):
    small, large = models
    named = loaded(stores[0], model=str(large))
    paired = loaded(stores[1])
    for one, other in zip(named.score(texts), paired.score(texts), strict=True):
        assert np.array_equal(one.log_p, other.log_p)
    assert loaded(stores[1], model=str(small)).key_model is None
    text = tmp_path / "text.txt"
    text.write_text("\n".join(texts) + "\n")
    given = {"lambda_": WEIGHT, "knn_temperature": 8.0, "tau": "4", "k": 12, "max_knns": 24}
    evaluation = rd.evaluate(
        stores[0], text=str(text), methods="lm,retomaton", model=str(large), **given, **QUIET
    )
    losses = np.concatenate([scored.log_lm for scored in paired.score(texts)])
    row = next(row for row in evaluation.rows if row["method"] == "lm")
    assert row["perplexity"] == pytest.approx(np.exp(-losses.mean()), rel=1e-4)
    mixed = np.concatenate([scored.log_p for scored in paired.score(texts)])
    row = next(row for row in evaluation.rows if row["method"] == "retomaton")
    assert row["perplexity"] == pytest.approx(np.exp(-mixed.mean()), rel=1e-4)


def test_a_key_model_that_was_moved_is_asked_for_by_its_flag(models, build, tmp_path):
    small, large = models
    moved = shutil.copytree(small, tmp_path / "small")
    path = build(tmp_path / "a.store", model=large, key_model=moved)
    moved.rename(tmp_path / "moved")
    with pytest.raises(ModelError, match=r"no longer at .*/small; name its place with --key-model"):
        loaded(path)
    with pytest.raises(BadInput, match=r"is not the one that .*; name the right .* --key-model"):
        loaded(path, key_model=str(large))
    assert loaded(path, key_model=str(tmp_path / "moved")).key_model is not None
    # What walks nothing asks for no queries.
    assert rd.load(path, method="lm+ngram+cache").key_model is None


def test_another_tokenizer_is_refused_by_its_first_difference(models, stores, corpus, tmp_path):
    small, large = models
    other = shutil.copytree(large, tmp_path / "other")
    text = (other / "tokenizer.json").read_text()
    assert text.count('"!": 1,') == text.count('"\\"": 2,') == 1
    text = text.replace('"!": 1,', '"!": 2,').replace('"\\"": 2,', '"\\"": 1,')
    (other / "tokenizer.json").write_text(text)
    with pytest.raises(BadInput, match=r"token 1 is '\"' here and '!' there"):
        loaded(stores[0], model=str(other))
    chosen = {"corpus": str(corpus), "split": "line", "model": str(other), "key_model": str(small)}
    with pytest.raises(BadInput, match=r"--key-model .* token 1 is '!' here and '\"' there"):
        rd.build(tmp_path / "b.store", **chosen, **QUIET)
    assert not (tmp_path / "b.store").exists()


def test_a_finished_store_is_not_built_for_another_lm(stores, models, build, tmp_path):
    path = shutil.copytree(stores[1], tmp_path / "copy.store")
    other = save_large(tmp_path / "other", layers=1)
    with pytest.raises(ConfigMismatch, match="lm"):
        build(path, model=other, key_model=models[0])


def test_a_calibration_serves_the_lm_that_it_was_made_with(stores, models, lines, tmp_path):
    path = shutil.copytree(stores[0], tmp_path / "copy.store")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines[400:460]) + "\n")
    walk = {"k": 12, "max_knns": 24, "positions": 300, "methods": "retomaton"}
    rd.calibrate(path, on=str(text), **walk, **QUIET)
    assert rd.load(path, method="retomaton").calibration == "default"
    large = {"model": str(models[1])}
    with pytest.raises(BadInput, match="has no calibration"):
        rd.load(path, method="retomaton", **large)
    with pytest.raises(BadInput, match=r"'default' .* was made with another LM than .*/large"):
        rd.load(path, method="retomaton", calibration="default", **large)
    rd.calibrate(path, on=str(text), name="large", **walk, **large, **QUIET)
    assert rd.load(path, method="retomaton", **large).calibration == "large"
    assert rd.load(path, method="retomaton").calibration == "default"


def test_a_store_without_keys_takes_no_key_model(models, corpus, tmp_path, command):
    chosen = {"corpus": str(corpus), "split": "line", "model": str(models[0])}
    rd.build(tmp_path / "a.store", **chosen, no_keys=True, **QUIET)
    assert rd.load(tmp_path / "a.store", model=str(models[1])).key_model is None
    run = command("score", tmp_path / "a.store", "--text", corpus, "--key-model", models[0])
    check_refused(run, "has no keys")
