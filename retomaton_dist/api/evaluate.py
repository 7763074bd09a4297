"""Calibrating a store, evaluating it on a text, and looking at what came of it."""

from pathlib import Path
from typing import Any

from retomaton_dist.analysis.analyse import Analysis
from retomaton_dist.api.store import StoreReader
from retomaton_dist.errors import NotAStore
from retomaton_dist.evaluation.calibrate import calibrate_store
from retomaton_dist.evaluation.duplicates import read_duplicates
from retomaton_dist.evaluation.overlap import CorpusOverlap
from retomaton_dist.evaluation.results import AS_CALIBRATED, Evaluation, measure_evaluation
from retomaton_dist.evaluation.run import run_evaluation
from retomaton_dist.evaluation.shortlist import Shortlist
from retomaton_dist.report.write import write_report
from retomaton_dist.runtime.progress import say
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    CalibrateSettings,
    EvaluateSettings,
    ReportSettings,
    WalkSettings,
    WorkerSettings,
)
from retomaton_dist.settings.parsing import split_keywords
from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json

ANALYSIS = "analysis.json"


def calibrate(store: str | Path, **settings: Any) -> StoreReader:
    """Calibrate methods on held-out text, or do what is missing of it.

    Keywords are the flags of `retomaton calibrate`; `on` is needed. `rd.load` and
    `rd.evaluate(..., calibration=...)` use what is found.
    """
    groups = (CalibrateSettings, WalkSettings, WorkerSettings)
    chosen, walk, workers = split_keywords(groups, settings)
    with Session(workers) as session:
        calibrate_store(store, chosen, walk, session)
    return StoreReader.open(store)


def evaluate(store: str | Path, **settings: Any) -> Evaluation:
    """Evaluate a text with all methods, and write the report.

    Keywords are the flags of `retomaton eval`; `text` is needed, and `calibrate_on` unless
    `lambda_` and `knn_temperature` are given. The evaluation's `rows` are the points of all curves.
    """
    groups = (EvaluateSettings, WalkSettings, WorkerSettings)
    return run_report(run_evaluation(store, *split_keywords(groups, settings)))


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
