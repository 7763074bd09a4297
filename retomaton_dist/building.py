"""Building a store, stage after stage: what the commands and the job run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retomaton_dist.later_checks import check_settings, check_sizes
from retomaton_dist.later_settings import TABLES, LaterSettings, later_settings
from retomaton_dist.lm.outline import ModelOutline
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
from storage import prune
from storage.datastore import Shape
from storage.store import Store, StoreWriter, writing

GROUPS = (CorpusSettings, ModelSettings, TokenizeSettings, ExtractSettings, WorkerSettings)


@dataclass(frozen=True)
class BuildSettings:
    """Everything that says how a store is built up to its datastore."""

    corpus: CorpusSettings
    model: ModelSettings
    tokenize: TokenizeSettings
    extract: ExtractSettings
    workers: WorkerSettings


@dataclass(frozen=True)
class Prepared:
    """Corpus and model, found and checked, before anything is written."""

    corpus: tokenizing.TokenizePlan
    model: ModelOutline
    windowing: extracting.Windowing


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
    return run_extract(store, BuildSettings(*split_keywords(GROUPS, settings)))


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

    Keywords are the flags of `retomaton build`; `corpus` and `model` are needed. Settings of the
    later stages are tables, as in a TOML file: `cluster={"states": 500}`, `index={...}`,
    `compile={...}`. All of them are checked before anything is written.
    """
    return run_build(store, *split_build(settings))


def split_build(keywords: Mapping[str, Any]) -> tuple[BuildSettings, LaterSettings]:
    """Make the settings of all stages from the keywords of `build`."""
    flags = {name: value for name, value in keywords.items() if name not in TABLES}
    return BuildSettings(*split_keywords(GROUPS, flags, TABLES)), later_settings(keywords)


def run_build(store: str | Path, settings: BuildSettings, later: LaterSettings) -> StoreReader:
    """Run all stages on one connection to Ray.

    What is wrong with any of them is refused before anything is written or, if it takes the
    number of entries to see it, before the model is run.
    """
    with Session(settings.workers) as session:
        prepared = prepare(settings, session)
        check_settings(later, Path(store), prepared.model.dimension)
        with writing(store) as writer:
            tokenized = tokenizing.tokenize(writer, prepared.corpus, session)
            check_sizes(later, choose_shape(tokenized.facts["entries"], settings, prepared))
            _extract(writer, settings, prepared, session)
            clustering_stage.cluster(writer, later.cluster, session)
            _index(writer, later.index, session)
            compiling.compile_automaton(writer, later.compile, session)
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
    with Session(settings.workers) as session:
        prepared = prepare(settings, session)
        with writing(store) as writer:
            tokenizing.tokenize(writer, prepared.corpus, session)
            _extract(writer, settings, prepared, session)
    return StoreReader.open(store)


def prepare(settings: BuildSettings, session: Session) -> Prepared:
    """Find corpus and model, and check the settings of `tokenize` and `extract` against them."""
    corpus = tokenizing.plan_tokenize(settings.corpus, settings.model, settings.tokenize)
    model = extracting.check_model(settings.model, corpus.tokenizer)
    windowing = extracting.resolve(settings.extract, settings.model, model, session)
    return Prepared(corpus, model, windowing)


def choose_shape(entries: int, settings: BuildSettings, prepared: Prepared) -> Shape:
    """Shape of the datastore that extraction makes of so many entries."""
    chunk_entries = settings.extract.chunk_entries
    return extracting.choose_shape(entries, prepared.model.dimension, chunk_entries)


def _extract(
    writer: StoreWriter, settings: BuildSettings, prepared: Prepared, session: Session
) -> None:
    extracting.extract(
        writer,
        settings.model,
        prepared.model,
        prepared.windowing,
        settings.extract.chunk_entries,
        session,
    )


def _index(writer: StoreWriter, settings: IndexSettings, session: Session) -> None:
    store = Store.open(writer.path.resolve())
    if prune.STAGE in store.manifest.stages:
        # The plan looks at keys, which are gone; the index itself must be there.
        store.stage(f"index/{settings.name}")
        return
    planned = indexing.plan_index(store, settings, session.settings.threads)
    indexing.index(writer, planned, settings, session)
