"""Evaluating a text: calibrate on held-out text, score every position, then measure all methods.

    OUT/calibration/   the held-out text: tokens, and scores of the walks that methods learn from
    OUT/text/          the evaluated text: the same, for the walks that their points need
    OUT/*.json, ...    what is made from these: constants, results, report

Both folders are stores, so that a killed evaluation goes on where it was, and other settings are
refused by name.
"""

import math
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from retomaton_dist.errors import BadInput
from retomaton_dist.evaluation import calibration as calibrating
from retomaton_dist.evaluation.calibration import (
    COARSE,
    COARSE_RESTARTS,
    SIGMAS,
    measured_foss,
    restart_for,
    spread_taus,
    tau_for,
    try_restarts,
    unbeaten_restarts,
)
from retomaton_dist.evaluation.duplicates import ChosenText, look_for_duplicates
from retomaton_dist.evaluation.prepare import Prepared, described, prepare
from retomaton_dist.evaluation.score import ScorePlan, choose_documents
from retomaton_dist.evaluation.score_worker import Pass, ScoreJob
from retomaton_dist.evaluation.temperatures import (
    at_edges,
    grid_around,
    grid_of,
    temperatures_of,
    with_neighbours,
)
from retomaton_dist.evaluation.text import TextPlan, check_apart, plan_text
from retomaton_dist.methods.method import CurvePoint, Restart, Setup
from retomaton_dist.methods.token_statistics import TokenStatistics
from retomaton_dist.runtime.progress import say
from retomaton_dist.runtime.session import Session
from retomaton_dist.runtime.threads import torch_limited
from retomaton_dist.scores.scores import Scores
from retomaton_dist.scores.walks import WalkSpec, each_once
from retomaton_dist.settings import EvaluateSettings, WalkSettings, WorkerSettings
from retomaton_dist.stages.runner import check_settings, made_with, run_stage
from storage import canonical, files
from storage.canonical import Json
from storage.store import Store, StoreWriter, writing

SETTINGS = "settings.json"
TOKENIZER = "tokenizer.json"
SWEEP = "sweep"


@dataclass(frozen=True)
class Texts:
    """The evaluated text, and the one to calibrate on if there is one."""

    text: TextPlan
    calibration: TextPlan | None


def run_evaluation(
    store: str | Path, settings: EvaluateSettings, walk: WalkSettings, workers: WorkerSettings
) -> Path:
    """Score and calibrate; everything is checked before anything is written. Return the folder."""
    with Session(workers) as session:
        prepared = prepare(store, settings, walk, session)
        out = _folder(prepared)
        texts = _texts(prepared, out)
        calibrated_scores, setup = _calibration_pass(prepared, texts, out, session)
        inputs = _calibration_inputs(out, prepared, setup, calibrated_scores)
        methods = prepared.methods
        with torch_limited(workers.threads):
            found = calibrating.calibrate(out, methods, calibrated_scores, setup, inputs)
        chosen = _with_restarts(
            _with_taus(setup, prepared, calibrated_scores), prepared, calibrated_scores
        )
        points = [
            point for method in methods for point in method.points(chosen, found[method.name])
        ]
        temperatures = with_neighbours(temperatures_of(found))
        with writing(out / "text") as writer:
            held = _held_out(prepared, texts, out)
            facts = _text_pass(writer, prepared, texts.text, points, temperatures, held, session)
        if calibrating.read(out, inputs) is None:
            calibrating.keep(out, found, inputs)
        # What the report shows of tokens, it decodes with this: no model is needed then.
        files.write(out / TOKENIZER, prepared.tokenizer.to_json().encode())
        tried = _tried(found, setup, calibrated_scores)
        record = _record(prepared, texts, chosen, facts, session)
        canonical.write(out / SETTINGS, {**record, "tried": tried})
    return out


def _tried(found: calibrating.Found, setup: Setup, scores: Scores | None) -> Json:
    """The temperatures that calibration chose from, and what it chose at an edge; say that, too."""
    if scores is None:
        return {}
    edges = at_edges(found, scores.temperatures, setup)
    for line, places in edges.items():
        say(f"note: {line}: {', '.join(places)}")
    return {"temperatures": list(scores.temperatures), "edges": edges}


def _texts(prepared: Prepared, out: Path) -> Texts:
    settings = prepared.settings
    text = plan_text("--text", settings.text, out / "text", prepared)
    if not settings.calibrate_on:
        return Texts(text, None)
    place = out / "calibration"
    held = plan_text("--calibrate-on", settings.calibrate_on, place, prepared)
    if not settings.same_text:
        check_apart(text, held)
    return Texts(text, held)


def _folder(prepared: Prepared) -> Path:
    settings = prepared.settings
    name = f"{Path(settings.text[0]).name.split('.')[0] or 'text'}-{settings.mode}"
    out = Path(settings.out or prepared.store.path / "evaluations" / name).resolve()
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file; name a folder")
    known = {"text", "calibration"}
    if out.exists() and any(out.iterdir()) and not any((out / item).exists() for item in known):
        raise BadInput(f"--out {out} has other things in it; name a new folder")
    return out


def _calibration_pass(
    prepared: Prepared, texts: Texts, out: Path, session: Session
) -> tuple[Scores | None, Setup]:
    setup = _setup(prepared)
    if texts.calibration is None:
        return None, setup
    methods = prepared.methods
    wanted = [spec for method in methods for spec in method.calibration_walks(setup)]
    if _needs_foss(prepared):
        wanted += [spec for method in methods for spec in method.walks(setup)]
    with writing(out / "calibration") as writer:
        corpus = texts.calibration.tokenize(writer, session)
        job = ScoreJob(
            prepared.reader(corpus),
            prepared.retrieval,
            (Pass(SWEEP, tuple(each_once(wanted))),),
            _grid(prepared),
            any(method.uses_queries for method in methods),
        )
        limit = prepared.settings.calibration_positions
        _score(writer, prepared, job, choose_documents(corpus.lengths, limit), session)
    return Scores.open(Store.open(out / "calibration"), SWEEP), setup


def _needs_foss(prepared: Prepared) -> bool:
    return prepared.taus is None or bool(prepared.settings.targets)


def _setup(prepared: Prepared) -> Setup:
    """What methods are calibrated with; thresholds that are `auto` or targets are still coarse."""
    settings, automata = prepared.settings, prepared.automata
    taus = COARSE if _needs_foss(prepared) or prepared.taus is None else prepared.taus
    return Setup(
        automata,
        {name: tuple(sorted({*taus, math.inf})) for name in automata},
        dict.fromkeys(automata, _coarse_restarts(prepared)),
        weight=settings.lambda_,
        temperature=settings.temperature,
        pointer_weight=prepared.retrieval.settings.pointer_weight,
        statistics=lambda: _statistics(prepared),
    )


def _statistics(prepared: Prepared) -> TokenStatistics:
    corpus = prepared.store.corpus()
    vocabulary = max(corpus.vocabulary, prepared.outlined.vocabulary)
    return TokenStatistics.of_corpus(corpus, vocabulary)


def _with_taus(setup: Setup, prepared: Prepared, scores: Scores | None) -> Setup:
    """The thresholds to evaluate: those named, those with the FoSS asked for, or spread ones."""
    taus, targets = prepared.taus, prepared.settings.targets
    if scores is None or not _needs_foss(prepared):
        assert taus is not None, "without calibration text there is a default"
        return replace(setup, taus=dict.fromkeys(prepared.automata, taus))
    chosen = {}
    for name in prepared.automata:
        coarse = [tau for tau in setup.taus[name] if WalkSpec(name, tau).label in scores.walks]
        if not coarse:
            # No method that was asked for has a curve by tau.
            chosen[name] = setup.taus[name]
            continue
        foss = measured_foss(scores, name, coarse)
        named = taus or (() if targets else spread_taus(coarse, foss))
        met = {tau_for(target, coarse, foss) for target in targets}
        chosen[name] = tuple(sorted({*named, *met}))
    return replace(setup, taus=chosen)


def _coarse_restarts(prepared: Prepared) -> tuple[Restart, ...]:
    """Pairs of tau and sigma that are tried on the calibration text, or all if there is none."""
    if not prepared.restarts_by_suffix:
        return ()
    taus, sigmas = prepared.taus or COARSE_RESTARTS, prepared.settings.sigmas or SIGMAS
    return tuple(Restart(tau, sigma) for tau in taus for sigma in sigmas)


def _with_restarts(setup: Setup, prepared: Prepared, scores: Scores | None) -> Setup:
    """The pairs to evaluate: all that were named, or those that did best on held-out text."""
    settings = prepared.settings
    if scores is None or not prepared.restarts_by_suffix:
        return setup
    chosen = {}
    for name in prepared.automata:
        tried = try_restarts(scores, name, setup)
        everything = [item.restart for item in tried]
        named = everything if settings.taus and settings.sigmas else unbeaten_restarts(tried)
        met = [restart_for(target, tried) for target in settings.targets]
        chosen[name] = tuple(dict.fromkeys(met or named))
    return replace(setup, restarts=chosen)


def _grid(prepared: Prepared) -> tuple[float, ...]:
    """Temperatures that the calibration text is scored for."""
    if prepared.settings.temperature is not None:
        return grid_of(prepared.settings.temperature)
    return grid_around(prepared.retrieval.opened[prepared.automata[0]].typical_distance)


def _held_out(prepared: Prepared, texts: Texts, out: Path) -> dict[str, ChosenText]:
    """The documents that methods were calibrated on, if there are any."""
    if texts.calibration is None:
        return {}
    store = Store.open(out / "calibration")
    limit = prepared.settings.calibration_positions
    return {"calibration": ChosenText(store, choose_documents(store.corpus().lengths, limit))}


def _text_pass(
    writer: StoreWriter,
    prepared: Prepared,
    text: TextPlan,
    points: list[CurvePoint],
    temperatures: tuple[float, ...],
    held: dict[str, ChosenText],
    session: Session,
) -> Json:
    """Score the evaluated text, after a look at what it shares with the others (`held`)."""
    corpus = text.tokenize(writer, session)
    documents = choose_documents(corpus.lengths, prepared.settings.positions)
    keeps = any(method.uses_queries for method in prepared.methods)
    passes = _passes(points, live=prepared.settings.mode == "live")
    job = ScoreJob(prepared.reader(corpus), prepared.retrieval, passes, temperatures, keeps)
    plan = ScorePlan(job, documents, prepared.inputs(), session.settings.threads)
    check_settings(writer, plan)
    chosen = {"text": ChosenText(Store.open(writer.path), documents)}
    look_for_duplicates(writer.path.parent, chosen | held, prepared.store)
    facts = run_stage(writer, plan, session).facts
    return {
        "documents": len(documents),
        "positions": facts["positions"],
        "words": text.words(corpus, documents),
        "temperatures": list(temperatures),
        "caps": facts["caps"],
    }


def _score(
    writer: StoreWriter, prepared: Prepared, job: ScoreJob, documents: list[int], session: Session
) -> Json:
    threads = session.settings.threads
    plan = ScorePlan(job, documents, prepared.inputs(), threads)
    return run_stage(writer, plan, session).facts


def _passes(points: list[CurvePoint], *, live: bool) -> tuple[Pass, ...]:
    """One pass for all points, or one for each that searches otherwise than the others."""
    if not live:
        specs = each_once(point.spec for point in points if point.spec is not None)
        return (Pass(SWEEP, tuple(specs)),)
    named = {
        point.pass_name: Pass(
            point.pass_name, (point.spec,) if point.spec else (), live=True, gate=point.gate
        )
        for point in points
    }
    return tuple(named.values())


def _calibration_inputs(out: Path, prepared: Prepared, setup: Setup, scores: Scores | None) -> Json:
    digest = Store.open(out / "calibration").stage("score").digest if scores else None
    return {
        "scores": digest,
        "methods": [method.name for method in prepared.methods],
        "lambda": setup.weight,
        "temperature": setup.temperature,
        "pointer_weight": setup.pointer_weight,
    }


def _record(prepared: Prepared, texts: Texts, setup: Setup, facts: Json, session: Session) -> Json:
    """Everything needed to repeat the evaluation, and to measure anew from its scores."""
    held = texts.calibration
    taus = {name: [str(tau) for tau in taus] for name, taus in setup.taus.items()}
    restarts = {
        name: [[str(number) for number in restart] for restart in listed]
        for name, listed in setup.restarts.items()
    }
    return {
        **described(prepared),
        "text": facts,
        "setup": {"automata": list(setup.automata), "taus": taus, "restarts": restarts},
        "methods": [method.name for method in prepared.methods],
        "mode": prepared.settings.mode,
        "sources": [source.path for source in texts.text.sources],
        "calibration_sources": [source.path for source in held.sources] if held else [],
        "workers": asdict(session.settings),
        "versions": made_with(prepared.device == "cuda"),
        "command": sys.argv,
    }
