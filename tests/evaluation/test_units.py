"""The unit that a model's keys have does not matter: the grid of temperatures goes with it."""

import random

import pytest
from transformers import AutoModelForCausalLM

import retomaton_dist as rd
from tests.conftest import TEXT, save_tiny_model
from tests.evaluation.evaluated import by_point, evaluate_here

# A power of two, so that keys are rounded alike.
FACTOR = 128
METHODS = "lm,knnlm,retomaton,retomaton+pw"
HERE = {"workers": 0, "progress": "none"}


def write_phrases(path, seed, lines):
    """Lines of a few phrases of the same words, so that what follows is found in the corpus."""
    words, made = TEXT.split(), random.Random(1)
    phrases = [" ".join(made.choices(words, k=4)) for _ in range(12)]
    chosen = random.Random(seed)
    text = [" ".join(chosen.choices(phrases, k=3)) for _ in range(lines)]
    path.write_text("\n".join(text) + "\n")
    return str(path)


def scaled(folder, other):
    """The same function with keys of another unit: what enters the last layer's MLP is larger."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    last = model.transformer.h[-1]
    for weight in last.ln_2.parameters():
        weight.data *= FACTOR
    last.mlp.c_fc.weight.data /= FACTOR
    model.save_pretrained(other)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (other / name).write_bytes((folder / name).read_bytes())
    return other


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    """The same text evaluated with the model, and with its scaled twin."""
    folder = tmp_path_factory.mktemp("units")
    corpus = write_phrases(folder / "corpus.txt", 2, 150)
    texts = {
        "text": write_phrases(folder / "test.txt", 3, 30),
        "calibrate_on": write_phrases(folder / "dev.txt", 4, 40),
    }
    models = [save_tiny_model(folder / "model")]
    models.append(scaled(models[0], folder / "scaled"))
    made = []
    for number, model in enumerate(models):
        store = folder / f"{number}.store"
        tables = {
            "cluster": {"states": 40},
            "index": {"factory": "Flat", "recall_queries": 16, "recall_k": 8},
        }
        rd.build(store, corpus=corpus, split="line", model=str(model), **tables, **HERE)
        made.append(evaluate_here(store, folder / f"out{number}", texts, methods=METHODS))
    return made


def test_scaled_keys_give_the_same_results(evaluations):
    plain, other = map(by_point, evaluations)
    for point, row in plain.items():
        assert other[point]["perplexity"] == pytest.approx(row["perplexity"], rel=0.01), point
        if row["temperature"] is not None:
            scale = other[point]["temperature"] / row["temperature"]
            assert scale == pytest.approx(FACTOR**2, rel=0.01), point
    retrieved, alone = plain["knnlm", None, None, 0.0], plain["lm", None, None, None]
    assert retrieved["perplexity"] < 0.8 * alone["perplexity"], "or nothing was compared"


def test_what_was_tried_is_kept_and_nothing_lies_at_an_edge_unsaid(evaluations):
    for evaluation in evaluations:
        tried = evaluation.settings["tried"]
        grid = tried["temperatures"]
        assert all(high == 2 * low for low, high in zip(grid, grid[2:], strict=False))
        report = (evaluation.path / "report.md").read_text()
        for line in tried["edges"]:
            assert line in report.replace("\\", "")
