"""The pass over the calibration text: which walks it takes, and what comes of their thresholds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from retomaton_dist.calibration.thresholds import COARSE, COARSE_RESTARTS, SIGMAS, Thresholds
from retomaton_dist.engine.block_scores import Pass
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import each_once
from retomaton_dist.evaluation.prepare import Prepared
from retomaton_dist.evaluation.score import ScorePlan, choose_documents
from retomaton_dist.evaluation.score_worker import ScoreJob
from retomaton_dist.evaluation.temperatures import at_edges, grid_around, grid_of
from retomaton_dist.evaluation.text import TextPlan
from retomaton_dist.methods.method import Calibrated, Restart, Setup
from retomaton_dist.methods.token_statistics import TokenStatistics
from retomaton_dist.runtime.session import Session
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.statistics import StatisticsPlan, is_counted, read_statistics
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.store import Store, writing

SWEEP = "sweep"


@dataclass(frozen=True)
class ScoredText:
    """A calibration text that was scored, and the setup that it was scored for."""

    store: Store
    setup: Setup

    @property
    def scores(self) -> Scores:
        """What came of it."""
        return Scores.open(self.store, SWEEP)

    def tried(self, found: Mapping[str, Calibrated]) -> Json:
        """The temperatures that calibration chose from, and what it chose at an edge."""
        degrees = self.scores.temperatures
        return {"temperatures": list(degrees), "edges": at_edges(found, degrees, self.setup)}

    def thresholds(self, *, restarts: bool) -> Thresholds:
        """What the setup's thresholds came to; pairs of tau and sigma only if asked."""
        return Thresholds.measured(self.scores, self.setup, restarts=restarts)


def calibration_pass(
    prepared: Prepared, text: TextPlan, folder: Path, session: Session
) -> ScoredText:
    """Score a text into `folder`, a store of its own, for all walks that methods learn from."""
    counted = partial(_statistics, prepared, folder, session)
    setup, methods = replace(coarse_setup(prepared), statistics=counted), prepared.methods
    wanted = [spec for method in methods for spec in method.calibration_walks(setup)]
    if needs_foss(prepared):
        wanted += [spec for method in methods for spec in method.walks(setup)]
    with writing(folder) as writer:
        corpus = text.tokenize(writer, session)
        job = ScoreJob(
            prepared.reader(corpus),
            prepared.retrieval,
            (Pass(SWEEP, tuple(each_once(wanted))),),
            _grid(prepared),
            any(method.uses_queries for method in methods),
        )
        documents = choose_documents(corpus.lengths, prepared.settings.calibration_positions)
        plan = ScorePlan(job, documents, prepared.inputs(), session.settings.threads)
        run_stage(writer, plan, session)
    return ScoredText(Store.open(folder), setup)


def needs_foss(prepared: Prepared) -> bool:
    """Whether thresholds are chosen by the FoSS that they have on the calibration text."""
    return prepared.taus is None or bool(prepared.settings.targets)


def coarse_setup(prepared: Prepared) -> Setup:
    """What methods are calibrated with; thresholds that are `auto` or targets are still coarse."""
    settings, automata = prepared.settings, prepared.automata
    taus = COARSE if needs_foss(prepared) or prepared.taus is None else prepared.taus
    return Setup(
        automata,
        {name: tuple(sorted({*taus, math.inf})) for name in automata},
        dict.fromkeys(automata, _coarse_restarts(prepared)),
        weight=settings.lambda_,
        temperature=settings.knn_temperature,
        pointer_weight=prepared.retrieval.settings.pointer_weight,
        distance=partial(_distance, prepared),
    )


def _coarse_restarts(prepared: Prepared) -> tuple[Restart, ...]:
    """Pairs of tau and sigma that are tried on the calibration text, or all if there is none."""
    if not prepared.restarts_by_suffix:
        return ()
    taus, sigmas = prepared.taus or COARSE_RESTARTS, prepared.settings.sigmas or SIGMAS
    return tuple(Restart(tau, sigma) for tau in taus for sigma in sigmas)


def _statistics(prepared: Prepared, folder: Path, session: Session) -> TokenStatistics:
    """From the store or, if that was never counted, from units that are kept with the text."""
    store = prepared.store
    vocabulary = max(store.corpus().vocabulary, prepared.outlined.vocabulary)
    if is_counted(store):
        return read_statistics(store, vocabulary)
    with writing(folder) as writer:
        run_stage(writer, StatisticsPlan(store, writer.path.resolve()), session)
    return read_statistics(Store.open(folder), vocabulary)


def _grid(prepared: Prepared) -> tuple[float, ...]:
    """Temperatures that the calibration text is scored for."""
    if prepared.settings.knn_temperature is not None:
        return grid_of(prepared.settings.knn_temperature)
    return grid_around(_distance(prepared)) if prepared.automata else (1.0,)


def _distance(prepared: Prepared) -> float:
    """Between two entries drawn at random."""
    return prepared.retrieval.open_automata[prepared.automata[0]].typical_distance
