"""Evaluating a store on a text, and looking at what came of it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from retomaton_dist.analysis.analyse import Analysis
from retomaton_dist.errors import NotAStore
from retomaton_dist.evaluation.duplicates import read_duplicates
from retomaton_dist.evaluation.overlap import CorpusOverlap
from retomaton_dist.evaluation.results import AS_CALIBRATED, Evaluation, measure_evaluation
from retomaton_dist.evaluation.run import run_evaluation
from retomaton_dist.evaluation.shortlist import Shortlist
from retomaton_dist.report.write import write_report
from retomaton_dist.runtime.progress import say
from retomaton_dist.settings import EvaluateSettings, ReportSettings, WalkSettings, WorkerSettings
from retomaton_dist.settings.parsing import split_keywords, walk_settings
from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json

ANALYSIS = "analysis.json"


def evaluate(store: str | Path, **settings: Any) -> Evaluation:
    """Evaluate a text with all methods, and write the report.

    Keywords are the flags of `retomaton eval`; `text` is needed, and `calibrate_on` unless
    `lambda_` and `knn_temperature` are given. The evaluation's `rows` are the points of all curves.
    """
    groups = (EvaluateSettings, WalkSettings, WorkerSettings)
    chosen, walk, workers = split_keywords(groups, settings)
    given = {name: settings[name] for name in asdict(walk) if name in settings}
    return run_evaluate(store, chosen, walk_settings(chosen.preset, given), workers)


def run_evaluate(
    store: str | Path, settings: EvaluateSettings, walk: WalkSettings, workers: WorkerSettings
) -> Evaluation:
    """Score, calibrate, measure and report."""
    return run_report(run_evaluation(store, settings, walk, workers))


def run_report(path: str | Path, changed: ReportSettings = AS_CALIBRATED) -> Evaluation:
    """Measure all methods anew, perhaps with other constants, and write the report."""
    evaluation = Evaluation.open(path)
    _analyse(evaluation, measure_evaluation(evaluation, changed))
    write_report(evaluation.path)
    return evaluation


def _analyse(evaluation: Evaluation, listed: Shortlist) -> None:
    """Compare the text with the corpus; without what it shares, what was found before stays."""
    shown, compared = listed.shown, list(listed.compared())
    if shown is None and not compared:
        return
    text, scores = evaluation.text, listed.scores
    try:
        kept = CorpusOverlap.of(text)
    except NotAStore as error:
        say(f"note: n-grams and gains are not looked at anew: {error}")
        return
    places = kept.places(text, scores.document, scores.position)
    found = Analysis(
        scores, kept.matched[places], kept.frequency[places], read_duplicates(evaluation.path)
    )
    facts: Json = {"gains": found.gains(compared), "overlap": found.overlap}
    if shown is not None:
        walk = {"walk": shown.measured.row["walk"]}
        facts["runs"] = walk | found.runs(shown.measured.searched)
    canonical.write(evaluation.path / ANALYSIS, facts)
