"""Texts to evaluate and to calibrate on, and evaluations of them."""

import random

import retomaton_dist as rd
from retomaton_dist.evaluation.results import AS_CALIBRATED, Evaluation, measure_evaluation
from retomaton_dist.evaluation.run import run_evaluation
from retomaton_dist.settings import EvaluateSettings, WalkSettings, WorkerSettings
from retomaton_dist.settings.parsing import split_keywords
from retomaton_dist.storage.store import Store
from tests.conftest import TEXT

SETTINGS = {
    "k": 32,
    "max_knns": 32,
    "tau": "1,4,inf",
    "sigma": "0,2",
    "workers": 1,
    "progress": "none",
}


def write_text(path, seed, lines):
    """Short lines of the corpus's words in another order; always the same."""
    chosen, words = random.Random(seed), TEXT.split()
    made = [" ".join(chosen.choices(words, k=chosen.randint(1, 6))) for _ in range(lines)]
    path.write_text("\n".join(made) + "\n")
    return path


def write_texts(folder):
    """A text to evaluate and one to calibrate on, as settings."""
    text = write_text(folder / "test.txt", 8, 100)
    held = write_text(folder / "dev.txt", 9, 60)
    return {"text": str(text), "calibrate_on": str(held)}


def evaluate(store, out, texts, **changed):
    """Evaluate with actors, with small settings but for those given."""
    return rd.evaluate(store, out=str(out), **{**SETTINGS, **texts, **changed})


def evaluate_here(store, out, texts, **changed):
    """The same in this process, without Ray."""
    return evaluate(store, out, texts, **{**changed, "workers": 0})


def measure_here(store, out, texts, **changed):
    """The same without a report, which takes longer than all else."""
    named = {**SETTINGS, **texts, **changed, "workers": 0, "out": str(out)}
    groups = (EvaluateSettings, WalkSettings, WorkerSettings)
    settings, walk, workers = split_keywords(groups, named)
    return measured(run_evaluation(store, settings, walk, workers))


def measured(path, changed=AS_CALIBRATED):
    """The evaluation measured anew, without a report."""
    evaluation = Evaluation.open(path)
    measure_evaluation(evaluation, changed)
    return evaluation


def score_digest(evaluation, name="text"):
    """Digest of everything that was scored of the text, or of the calibration text."""
    return Store.open(evaluation.path / name).stage("score").digest


def by_point(evaluation):
    """Rows of results by what point of a curve they are."""
    return {
        (row["method"], row["clustering"], row["tau"], row["fraction"]): row
        for row in evaluation.rows
        if row["sigma"] is None and row["share"] is None
    }


def by_restart(evaluation):
    """Rows of the methods that look up suffixes where a walk runs thin."""
    rows = [row for row in evaluation.rows if row["sigma"] is not None or row["share"] is not None]
    return {
        (row["method"], row["clustering"], row["tau"], row["sigma"], row["share"]): row
        for row in rows
    }
