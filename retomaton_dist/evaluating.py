"""Evaluating a store on a text, and looking at what came of it: what the commands and job run."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from retomaton_dist.analysis.analyse import analyse
from retomaton_dist.automaton.walk_settings import PRESETS, WalkSettings
from retomaton_dist.errors import NotAStore
from retomaton_dist.evaluation.measure import Measured
from retomaton_dist.evaluation.prepare import store_model
from retomaton_dist.evaluation.results import NOTHING, Evaluation, Overrides, measure_evaluation
from retomaton_dist.evaluation.run import run_evaluation
from retomaton_dist.evaluation.scores import Scores
from retomaton_dist.evaluation.settings import EvaluateSettings
from retomaton_dist.lm.identity import identify
from retomaton_dist.report.write import write_report
from retomaton_dist.resolve import make_group, split_keywords
from retomaton_dist.runtime.progress import say
from retomaton_dist.settings import WorkerSettings
from storage import canonical
from storage.store import Store

ANALYSIS = "analysis.json"


def evaluate(store: str | Path, **settings: Any) -> Evaluation:
    """Evaluate a text with all methods, and write the report.

    Keywords are the flags of `retomaton eval`; `text` is needed, and `calibrate_on` unless
    `lambda_` and `temperature` are given. The evaluation's `rows` are the points of all curves.
    """
    groups = (EvaluateSettings, WalkSettings, WorkerSettings)
    chosen, walk, workers = split_keywords(groups, settings)
    given = {name: settings[name] for name in asdict(walk) if name in settings}
    return run_evaluate(store, chosen, walk_of(chosen, given), workers)


def walk_of(settings: EvaluateSettings, *given: dict[str, Any]) -> WalkSettings:
    """The walk of the preset, with what was given beyond it; what is given last wins."""
    merged = asdict(PRESETS[settings.preset])
    for part in given:
        merged |= part
    return make_group(WalkSettings, merged)


def run_evaluate(
    store: str | Path, settings: EvaluateSettings, walk: WalkSettings, workers: WorkerSettings
) -> Evaluation:
    """Score, calibrate, measure and report."""
    return report(run_evaluation(store, settings, walk, workers))


def report(path: str | Path, overrides: Overrides = NOTHING) -> Evaluation:
    """Measure all methods anew from the scores of an evaluation, and write the report."""
    evaluation = Evaluation.open(path)
    measured, scores = measure_evaluation(evaluation, overrides)
    if measured is not None and scores is not None:
        _analyse(evaluation, measured, scores)
    write_report(evaluation.path)
    return evaluation


def _analyse(evaluation: Evaluation, measured: Measured, scores: Scores) -> None:
    """Compare the text with the corpus; without the store, what was found before stays."""
    try:
        store = Store.open(evaluation.settings["store"])
    except NotAStore as error:
        say(f"note: n-grams and sequences are not looked at anew: {error}")
        return
    chosen = make_group(EvaluateSettings, {"text": "-", "model": evaluation.settings["model"]})
    _, tokenizer = identify(store_model(store, chosen), weights=False)
    text, corpus = evaluation.text.corpus(), store.corpus()
    label = measured.row["walk"]
    found = analyse(scores, label, measured.log_p, text, corpus, tokenizer.decode)
    canonical.write(evaluation.path / ANALYSIS, found)
