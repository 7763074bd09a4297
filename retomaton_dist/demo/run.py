"""The steps of the demo, each of them a command that a user could have typed."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.building import BuildSettings, run_cluster, run_extract
from retomaton_dist.cli.train_lm import train_on
from retomaton_dist.demo.text import prepare
from retomaton_dist.describe import as_text
from retomaton_dist.lm.train_settings import TrainSettings
from retomaton_dist.runtime.progress import clock
from retomaton_dist.settings import (
    ClusterSettings,
    CorpusSettings,
    ExtractSettings,
    ModelSettings,
    TokenizeSettings,
    WorkerSettings,
)
from storage.store import Store
from storage.verify import verify

Say = Callable[[str], None]


@dataclass(frozen=True)
class DemoSettings:
    """What the demo runs on: its own text and model unless others are given."""

    out: Path
    corpus: CorpusSettings | None
    model: str | None
    minutes: float
    workers: WorkerSettings


def run_demo(settings: DemoSettings, say: Say) -> None:
    """Train a model, build a store with it, show and check it."""
    start = time.monotonic()
    corpus = settings.corpus or _own_text(settings.out, say)
    model = settings.model or _own_model(settings, corpus, say)
    store = settings.out / "demo.store"
    build = BuildSettings(
        corpus,
        ModelSettings(model=model),
        TokenizeSettings(),
        ExtractSettings(),
        settings.workers,
    )
    _step(say, "extract a key for every token", "extract", store, corpus, "--model", model)
    run_extract(store, build)
    _step(say, "cluster the entries into states", "cluster", store)
    reader = run_cluster(store, ClusterSettings(), settings.workers)
    _step(say, "look into the store", "inspect", store)
    say(as_text(reader.describe()))
    _step(say, "check every byte of it", "verify", store)
    checked = verify(Store.open(store))
    say(f"sound: {checked.files:,} files, {checked.bytes:,} bytes")
    say(f"\nDone in {clock(time.monotonic() - start)}. The store is {store}: open it from Python:")
    say(f'  import retomaton_dist as rd; store = rd.open("{store}"); store.entry(1000)')


def _own_text(out: Path, say: Say) -> CorpusSettings:
    folders = prepare(out / "text")
    say(f"Text: the source of Python's standard library, copied to {out / 'text'}")
    return CorpusSettings(corpus=(str(folders["corpus"]),))


def _own_model(settings: DemoSettings, corpus: CorpusSettings, say: Say) -> str:
    folder = settings.out / "lm"
    minutes = ("--minutes", f"{settings.minutes:g}", "--out", folder)
    _step(say, "train a small language model", "train-lm", corpus, *minutes)
    train = TrainSettings(minutes=settings.minutes)
    result = train_on(corpus, train, str(folder), settings.workers.progress)
    say(f"perplexity {result.perplexity:,.1f} per token on held-out files of the corpus")
    return str(folder)


def _step(say: Say, what: str, command: str, *arguments: object) -> None:
    say(f"\n# {what}\n$ retomaton {command} {' '.join(map(_typed, arguments))}")


def _typed(argument: object) -> str:
    if isinstance(argument, CorpusSettings):
        split = f" --split {shlex.quote(argument.split)}" if argument.split else ""
        return f"--corpus {shlex.join(argument.corpus)}{split}"
    return shlex.quote(str(argument))
