"""Building a store, stage after stage: what the commands and the job run."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retomaton_dist.reader import StoreReader
from retomaton_dist.resolve import split_keywords
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.search.settings import IndexSettings
from retomaton_dist.settings import (
    ClusterSettings,
    CompileSettings,
    CorpusSettings,
    ExtractSettings,
    ModelSettings,
    TokenizeSettings,
    WorkerSettings,
)
from retomaton_dist.stages import cluster as clustering_stage
from retomaton_dist.stages import compile as compiling
from retomaton_dist.stages import extract as extracting
from retomaton_dist.stages import index as indexing
from retomaton_dist.stages import tokenize as tokenizing
from storage.store import Store, StoreWriter, writing


@dataclass(frozen=True)
class BuildSettings:
    """Everything that says how a store is built."""

    corpus: CorpusSettings
    model: ModelSettings
    tokenize: TokenizeSettings
    extract: ExtractSettings
    workers: WorkerSettings


def tokenize(store: str | Path, **settings: Any) -> StoreReader:
    """Tokenise a corpus into a store, or what is missing of it.

    Keywords are the flags of `retomaton tokenize`: `corpus` and `model` are needed.
    """
    groups = (CorpusSettings, ModelSettings, TokenizeSettings, WorkerSettings)
    return run_tokenize(store, *split_keywords(groups, settings))


def extract(store: str | Path, **settings: Any) -> StoreReader:
    """Turn a corpus into a datastore with a causal LM, or do what is missing of it.

    Keywords are the flags of `retomaton extract`: `corpus` and `model` are needed.
    """
    groups = (CorpusSettings, ModelSettings, TokenizeSettings, ExtractSettings, WorkerSettings)
    return run_extract(store, BuildSettings(*split_keywords(groups, settings)))


def cluster(store: str | Path, **settings: Any) -> StoreReader:
    """Cluster a store's entries into states, or do what is missing of it.

    Keywords are the flags of `retomaton cluster`; without any, k-means with N / 100 states.
    """
    return run_cluster(store, *split_keywords((ClusterSettings, WorkerSettings), settings))


def run_tokenize(
    store: str | Path,
    corpus: CorpusSettings,
    model: ModelSettings,
    settings: TokenizeSettings,
    workers: WorkerSettings,
) -> StoreReader:
    """Run the stage `tokenize`; everything is checked before anything is written."""
    with Session(workers) as session:
        planned = tokenizing.plan_tokenize(corpus, model, settings)
        with writing(store) as writer:
            tokenizing.tokenize(writer, planned, session)
    return StoreReader.open(store)


def build(store: str | Path, **settings: Any) -> StoreReader:
    """Run all stages, or what is missing of them.

    Keywords are the flags of `retomaton build`; for other settings of single stages, call
    `cluster` and `index` themselves.
    """
    groups = (CorpusSettings, ModelSettings, TokenizeSettings, ExtractSettings, WorkerSettings)
    chosen = BuildSettings(*split_keywords(groups, settings))
    return run_build(store, chosen, ClusterSettings(), IndexSettings())


def run_build(
    store: str | Path,
    settings: BuildSettings,
    clustering: ClusterSettings,
    index: IndexSettings,
) -> StoreReader:
    """Run all stages on one connection to Ray."""
    with Session(settings.workers) as session, extracted(store, settings, session) as writer:
        clustering_stage.cluster(writer, clustering, session)
        opened = Store.open(Path(store).resolve())
        planned = indexing.plan_index(opened, index, settings.workers.threads)
        indexing.index(writer, planned, index, session)
    return StoreReader.open(store)


def run_cluster(
    store: str | Path, settings: ClusterSettings, workers: WorkerSettings
) -> StoreReader:
    """Run the stage `cluster/NAME` over a store whose extraction is finished."""
    Store.open(store).stage("extract")
    with Session(workers) as session, writing(store) as writer:
        clustering_stage.cluster(writer, settings, session)
    return StoreReader.open(store)


def compile(store: str | Path, **settings: Any) -> StoreReader:  # noqa: A001 - rd.compile
    """Compile a clustering into an automaton, or do what is missing of it.

    Keywords are the flags of `retomaton compile`; none is needed.
    """
    groups = (CompileSettings, WorkerSettings)
    return run_compile(store, *split_keywords(groups, settings))


def run_compile(
    store: str | Path, settings: CompileSettings, workers: WorkerSettings
) -> StoreReader:
    """Run the stages `codec/NAME` and `compile/NAME` over a store that was clustered."""
    Store.open(store).stage(f"cluster/{settings.states}")
    with Session(workers) as session, writing(store) as writer:
        compiling.compile_automaton(writer, settings, session)
    return StoreReader.open(store)


def run_extract(store: str | Path, settings: BuildSettings) -> StoreReader:
    """Run `tokenize` and `extract`; everything is checked before anything is written."""
    with Session(settings.workers) as session, extracted(store, settings, session):
        pass
    return StoreReader.open(store)


@contextlib.contextmanager
def extracted(
    store: str | Path, settings: BuildSettings, session: Session
) -> Iterator[StoreWriter]:
    """Run `tokenize` and `extract`, and yield the writer for the stages that follow."""
    planned = tokenizing.plan_tokenize(settings.corpus, settings.model, settings.tokenize)
    outlined = extracting.check_model(settings.model, planned.tokenizer)
    windowing = extracting.resolve(settings.extract, settings.model, outlined, session)
    with writing(store) as writer:
        tokenizing.tokenize(writer, planned, session)
        extracting.extract(
            writer,
            settings.model,
            outlined,
            windowing,
            settings.extract.chunk_entries,
            session,
        )
        yield writer
