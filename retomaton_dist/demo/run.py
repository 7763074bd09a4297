"""The steps of the demo, each of them a command that a user could have typed."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.api.build import run_build, run_cluster, run_compile
from retomaton_dist.api.describe import as_text
from retomaton_dist.api.evaluate import run_evaluate
from retomaton_dist.api.store import StoreReader
from retomaton_dist.api.train import run_train
from retomaton_dist.demo.claim import check_claim
from retomaton_dist.demo.text import prepare
from retomaton_dist.evaluation.results import Evaluation, results_table
from retomaton_dist.report.folder import read_evaluation
from retomaton_dist.report.headline import result_sentences
from retomaton_dist.runtime.progress import clock
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    PRESETS,
    ClusterSettings,
    CompileSettings,
    CorpusSettings,
    EvaluateSettings,
    ExtractSettings,
    ModelSettings,
    TokenizeSettings,
    TrainSettings,
    WorkerSettings,
)
from retomaton_dist.settings.parsing import with_tables
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify

Say = Callable[[str], None]
# Positions of the demo's own texts: enough to see the differences, few enough for minutes.
POSITIONS, CALIBRATION_POSITIONS = 12_000, 10_000


@dataclass(frozen=True)
class DemoTexts:
    """What is read: the corpus, and held-out text to evaluate and to calibrate on, if any."""

    corpus: CorpusSettings
    text: tuple[str, ...] = ()
    calibrate_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class DemoSettings:
    """What the demo runs on: its own text and model unless others are given."""

    out: Path
    texts: DemoTexts | None
    model: str | None
    minutes: float
    workers: WorkerSettings


def run_demo(settings: DemoSettings, say: Say) -> None:
    """Train a model, build a store with it, evaluate held-out text, and say what was found."""
    start = time.monotonic()
    texts = settings.texts or _own_text(settings.out, say)
    model = settings.model or _own_model(settings, texts.corpus, say)
    store = settings.out / "demo.store"
    with Session(settings.workers) as session:
        if not session.here:
            # One Ray for all steps, which join it.
            session.join()
        _look(_build(settings, store, texts, model, say), store, say)
        if texts.text:
            _show(_evaluate(settings, store, texts, say), settings.texts is None, say)
    say(f"\nDone in {clock(time.monotonic() - start)}. The store is {store}: open it from Python:")
    say(f'  import retomaton_dist as rd; store = rd.open("{store}"); store.entry(1000)')


def _look(reader: StoreReader, store: Path, say: Say) -> None:
    _step(say, "look into the store", "inspect", store)
    say(as_text(reader.describe()))
    _step(say, "check every byte of it", "verify", store)
    checked = verify(Store.open(store))
    say(f"sound: {checked.files:,} files, {checked.bytes:,} bytes")


def _build(
    settings: DemoSettings, store: Path, texts: DemoTexts, model: str, say: Say
) -> StoreReader:
    model_settings = ModelSettings(model=model)
    groups = texts.corpus, model_settings, TokenizeSettings(), ExtractSettings(), settings.workers
    _step(say, "from text to an automaton", "build", store, texts.corpus, "--model", model)
    run_build(store, with_tables(groups, {}))
    _step(say, "the same without clustering, to compare", "cluster", store, "--algorithm", "none")
    run_cluster(store, ClusterSettings(algorithm="none"), settings.workers)
    say(f"$ retomaton compile {store} --states none")
    return run_compile(store, CompileSettings(states="none"), settings.workers)


def _evaluate(settings: DemoSettings, store: Path, texts: DemoTexts, say: Say) -> Evaluation:
    chosen = EvaluateSettings(
        text=texts.text,
        calibrate_on=texts.calibrate_on,
        positions=POSITIONS,
        calibration_positions=CALIBRATION_POSITIONS,
        out=str(settings.out / "evaluation"),
    )
    flags = ("--text", *texts.text, "--calibrate-on", *texts.calibrate_on)
    limits = ("--positions", POSITIONS, "--calibration-positions", CALIBRATION_POSITIONS)
    what = "perplexity against saved searches, for all methods, on text the model never saw"
    _step(say, what, "eval", store, *flags, *limits, "--out", chosen.out)
    return run_evaluate(store, chosen, PRESETS[chosen.preset], settings.workers)


def _show(evaluation: Evaluation, claims: bool, say: Say) -> None:
    say(results_table(evaluation.rows))
    say("")
    if claims:
        check_claim(evaluation.rows)
    for sentence in result_sentences(read_evaluation(evaluation.path)):
        say(sentence)
    say(f"\nThe report: {evaluation.path / 'report.html'} (and report.md beside it)")


def _own_text(out: Path, say: Say) -> DemoTexts:
    folders = prepare(out / "text")
    say(f"Text: the source of Python's standard library, copied to {out / 'text'}")
    return DemoTexts(
        CorpusSettings(corpus=(str(folders["corpus"]),)),
        (str(folders["test"]),),
        (str(folders["calibration"]),),
    )


def _own_model(settings: DemoSettings, corpus: CorpusSettings, say: Say) -> str:
    folder = settings.out / "lm"
    minutes = ("--minutes", f"{settings.minutes:g}", "--out", folder)
    _step(say, "train a small language model", "train-lm", corpus, *minutes)
    train = TrainSettings(minutes=settings.minutes)
    result = run_train(folder, corpus, train, settings.workers.progress)
    say(f"perplexity {result.perplexity:,.1f} per token on held-out files of the corpus")
    return str(folder)


def _step(say: Say, what: str, command: str, *arguments: object) -> None:
    say(f"\n# {what}\n$ retomaton {command} {' '.join(map(_typed, arguments))}")


def _typed(argument: object) -> str:
    if isinstance(argument, CorpusSettings):
        split = f" --split {shlex.quote(argument.split)}" if argument.split else ""
        return f"--corpus {shlex.join(argument.corpus)}{split}"
    return shlex.quote(str(argument))
