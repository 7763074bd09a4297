"""Evaluating a text: calibrate on held-out text, score every position, then measure all methods.

    OUT/calibration/   the held-out text: tokens, and scores of the walks that methods learn from
    OUT/text/          the evaluated text: the same, for the walks that their points need
    OUT/*.json, ...    what is made from these: constants, results, report

Both folders are stores, so that a killed evaluation goes on where it was, and other settings are
refused by name.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from retomaton_dist.calibration.calibration import Calibration, read_known
from retomaton_dist.calibration.thresholds import (
    Thresholds,
    TriedRestart,
    restart_for,
    setup_facts,
    share_of,
    spread_taus,
    tau_for,
    unbeaten_restarts,
)
from retomaton_dist.engine.block_scores import Pass
from retomaton_dist.engine.walks import each_once
from retomaton_dist.errors import BadInput
from retomaton_dist.evaluation.calibrate import (
    calibrate_as_given,
    calibrate_on_text,
    calibrate_store,
    say_edges,
)
from retomaton_dist.evaluation.calibration_pass import (
    SWEEP,
    coarse_setup,
    needs_foss,
)
from retomaton_dist.evaluation.duplicates import look_for_duplicates
from retomaton_dist.evaluation.folder import folder_of, other_settings_point_to_out
from retomaton_dist.evaluation.overlap import ChosenText, OverlapPlan
from retomaton_dist.evaluation.prepare import Prepared, described, prepare
from retomaton_dist.evaluation.score import STAGE, ScorePlan, choose_documents
from retomaton_dist.evaluation.score_worker import ScoreJob
from retomaton_dist.evaluation.temperatures import temperatures_of, with_neighbours
from retomaton_dist.evaluation.text import TextPlan, check_apart, digests_of, plan_text
from retomaton_dist.methods.method import CurvePoint, Restart, Setup
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    CalibrateSettings,
    EvaluateSettings,
    WalkSettings,
    WorkerSettings,
)
from retomaton_dist.stages.runner import made_with, run_stage
from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.store import Store, StoreWriter, writing

SETTINGS = "settings.json"


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
        if settings.calibration and settings.calibrate_on:
            made = CalibrateSettings.of_evaluation(settings)
            calibrate_store(store, made, walk, session)
        prepared = prepare(store, settings, walk, session)
        out = folder_of(prepared)
        texts = _texts(prepared, out)
        with other_settings_point_to_out():
            calibration = _calibration(prepared, texts, out, session)
        found, thresholds = calibration.found, calibration.thresholds
        begun = coarse_setup(prepared)
        chosen = _with_restarts(_with_taus(begun, prepared, thresholds), prepared, thresholds)
        points = [
            point
            for method in prepared.methods
            for point in method.points(chosen, found[method.name])
        ]
        temperatures = with_neighbours(temperatures_of(found))
        with other_settings_point_to_out(), writing(out / "text") as writer:
            held = _held_out(prepared, texts, out)
            facts = _text_pass(writer, prepared, texts.text, points, temperatures, held, session)
        if read_known(out, calibration.inputs) is None:
            calibration.write(out)
        if prepared.kept is None:
            say_edges(calibration)
        record = _record(prepared, texts, chosen, facts, session)
        record["size"]["calibration_tokens"] = _calibration_tokens(prepared, texts, out)
        tried = {"tried": calibration.tried, "calibrated_for": setup_facts(begun)}
        canonical.write(out / SETTINGS, {**record, **tried})
    return out


def _calibration(prepared: Prepared, texts: Texts, out: Path, session: Session) -> Calibration:
    """The store's calibration that was named, one made on held-out text, or as given.

    What is found anew is kept at once, but not if a text was scored before: its results are made
    with what was found then, until the text was scored for this.
    """
    if prepared.kept is not None:
        kept, names = prepared.kept, [method.name for method in prepared.methods]
        inputs: Json = {"calibration": kept.name, "digest": kept.digest, "methods": names}
        return replace(kept, found={name: kept.found[name] for name in names}, inputs=inputs)
    if texts.calibration is None:
        made = calibrate_as_given(prepared)
    else:
        folder, targets = out / "calibration", prepared.settings.targets
        made = calibrate_on_text(prepared, texts.calibration, folder, session, targets, out)
    if not (out / "text").exists():
        made.write(out)
    return made


def _calibration_tokens(prepared: Prepared, texts: Texts, out: Path) -> int:
    """How many tokens methods were calibrated on."""
    if prepared.kept is not None:
        stage = prepared.store.stage(f"calibrate/{prepared.kept.name}")
    elif texts.calibration is not None:
        stage = Store.open(out / "calibration").stage(STAGE)
    else:
        return 0
    return int(stage.facts["positions"])


def _texts(prepared: Prepared, out: Path) -> Texts:
    settings = prepared.settings
    text = plan_text("--text", settings.text, out / "text", prepared)
    if prepared.kept is not None and not settings.same_text:
        check_apart(text, prepared.kept.sources, f"calibration {prepared.kept.name!r}: its text")
    if prepared.kept is not None or not settings.calibrate_on:
        return Texts(text, None)
    place = out / "calibration"
    held = plan_text("--calibrate-on", settings.calibrate_on, place, prepared)
    if not settings.same_text:
        check_apart(text, digests_of(held), "--calibrate-on")
    return Texts(text, held)


def _with_taus(setup: Setup, prepared: Prepared, thresholds: Thresholds | None) -> Setup:
    """The thresholds to evaluate: those named, those with the FoSS asked for, or spread ones."""
    taus, targets = prepared.taus, prepared.settings.targets
    if thresholds is None or not needs_foss(prepared):
        assert taus is not None, "without calibration text there is a default"
        return replace(setup, taus=dict.fromkeys(prepared.automata, taus))
    chosen = {}
    for name in prepared.automata:
        curve = thresholds.curves.get(name)
        if curve is None:
            # No method that was asked for has a curve by tau.
            chosen[name] = setup.taus[name]
            continue
        named = taus or (() if targets else spread_taus(curve.taus, curve.foss))
        met = {tau_for(target, curve.taus, curve.foss) for target in targets}
        chosen[name] = tuple(sorted({*named, *met}))
    return replace(setup, taus=chosen)


def _with_restarts(setup: Setup, prepared: Prepared, thresholds: Thresholds | None) -> Setup:
    """The pairs to evaluate: all that were named, or those that did best on held-out text."""
    settings = prepared.settings
    if thresholds is None or not prepared.restarts_by_suffix:
        return setup
    chosen = {}
    for name in prepared.automata:
        tried = thresholds.tried[name]
        given = bool(settings.taus), bool(settings.sigmas)
        everything = any(given) if prepared.kept else all(given)
        named = _named_restarts(setup, name, tried) if everything else unbeaten_restarts(tried)
        met = [restart_for(target, tried) for target in settings.targets]
        chosen[name] = tuple(dict.fromkeys(met or named))
    return replace(setup, restarts=chosen)


def _named_restarts(setup: Setup, automaton: str, tried: Sequence[TriedRestart]) -> list[Restart]:
    """The pairs of the setup, with the shares that they or the nearest had on held-out text."""
    known = {one.restart.sigma for one in tried}
    for restart in setup.restarts[automaton]:
        if restart.sigma not in known:
            shown = ", ".join(f"{sigma:g}" for sigma in sorted(known))
            raise BadInput(f"--sigma {restart.sigma:g}: it was calibrated for {shown}")
    return [
        Restart(tau, sigma, share_of(tau, sigma, tried))
        for tau, sigma, _ in setup.restarts[automaton]
    ]


def _held_out(prepared: Prepared, texts: Texts, out: Path) -> dict[str, ChosenText]:
    """The documents that methods were calibrated on, if there are any."""
    if texts.calibration is None:
        return {}
    store = Store.open((out / "calibration").resolve())
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
    plan.check_begun(writer)
    chosen = {"text": ChosenText(Store.open(writer.path.resolve()), documents)}
    run_stage(writer, OverlapPlan(prepared.store, chosen["text"]), session)
    for other in held.values():
        with writing(other.store.path) as keeper:
            run_stage(keeper, OverlapPlan(prepared.store, other), session)
    look_for_duplicates(writer.path.parent, chosen | held, prepared.store)
    facts = run_stage(writer, plan, session).facts
    return {
        "documents": len(documents),
        "positions": facts["positions"],
        "words": text.words(corpus, documents),
        "temperatures": list(temperatures),
        "caps": facts["caps"],
    }


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


def _record(prepared: Prepared, texts: Texts, setup: Setup, facts: Json, session: Session) -> Json:
    """Everything needed to repeat the evaluation, and to measure anew from its scores."""
    held = texts.calibration
    return {
        **described(prepared),
        "text": facts,
        "setup": setup_facts(setup),
        "methods": [method.name for method in prepared.methods],
        "mode": prepared.settings.mode,
        "sources": [source.path for source in texts.text.sources],
        "calibration_sources": [source.path for source in held.sources] if held else [],
        "workers": asdict(session.settings),
        "versions": made_with(prepared.device == "cuda"),
        "command": sys.argv,
    }
