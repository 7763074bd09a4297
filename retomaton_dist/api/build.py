"""Building a store, stage after stage, and saying beforehand what it would take."""

from functools import partial
from pathlib import Path
from typing import Any

from retomaton_dist.api.store import StoreReader
from retomaton_dist.dry_run.build import BuildEstimate, estimate_build
from retomaton_dist.dry_run.disk import check_disk, check_least
from retomaton_dist.dry_run.extraction import SECONDS
from retomaton_dist.lm.identity import identify
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    BuildSettings,
    ClusterSettings,
    CompileSettings,
    CorpusSettings,
    IndexSettings,
    ModelSettings,
    SuffixSettings,
    TokenizeSettings,
    WorkerSettings,
)
from retomaton_dist.settings.entrances import (
    FLAGGED,
    GROUPS,
    build_settings,
    split_keywords,
    with_tables,
)
from retomaton_dist.stages import build as building
from retomaton_dist.stages.cluster import cluster as run_clustering
from retomaton_dist.stages.compile import compile_automaton
from retomaton_dist.stages.index import plan_index
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.statistics import StatisticsPlan
from retomaton_dist.stages.suffix import plan_suffix
from retomaton_dist.stages.tokenize import plan_tokenize
from retomaton_dist.storage.store import Store, writing


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
    groups = split_keywords([GROUPS[name] for name in FLAGGED], settings)
    return run_extract(store, with_tables(groups, {}))


def cluster(store: str | Path, **settings: Any) -> StoreReader:
    """Cluster a store's entries into states, or do what is missing of it.

    Keywords are the flags of `retomaton cluster`; without any, k-means with N / 100 states.
    """
    return run_cluster(store, *split_keywords((ClusterSettings, WorkerSettings), settings))


def index(store: str | Path, **settings: Any) -> StoreReader:
    """Build a search index over a store's keys, or do what is missing of it.

    Keywords are the flags of `retomaton index`; without any, what fits the store is chosen.
    """
    return run_index(store, *split_keywords((IndexSettings, WorkerSettings), settings))


def compile(store: str | Path, **settings: Any) -> StoreReader:  # noqa: A001 - rd.compile
    """Compile a clustering into an automaton, or do what is missing of it.

    Keywords are the flags of `retomaton compile`; none is needed.
    """
    return run_compile(store, *split_keywords((CompileSettings, WorkerSettings), settings))


def suffix(store: str | Path, **settings: Any) -> StoreReader:
    """Index a store's entries by the tokens before them, or do what is missing of it.

    Keywords are the flags of `retomaton suffix`; none is needed. Only `tokenize` must be finished.
    """
    return run_suffix(store, *split_keywords((SuffixSettings, WorkerSettings), settings))


def build(store: str | Path, **settings: Any) -> StoreReader:
    """Run all stages, or what is missing of them.

    Keywords are the flags of `retomaton build`; `corpus` and `model` are needed. Settings of the
    later stages are tables, as in a TOML file: `cluster={"states": 500}`, `index={...}`,
    `compile={...}`, `suffix={...}`. All of them are checked before anything is written.
    """
    return run_build(store, build_settings(settings))


def estimate(store: str | Path, *, seconds: float = SECONDS, **settings: Any) -> BuildEstimate:
    """Say what `rd.build` with the same keywords would take; nothing is written.

    Measuring takes about so many seconds at most, besides starting workers and loading the model.
    """
    return estimate_build(store, build_settings(settings), seconds)


def run_tokenize(
    store: str | Path,
    corpus: CorpusSettings,
    model: ModelSettings,
    settings: TokenizeSettings,
    workers: WorkerSettings,
) -> StoreReader:
    """Run the stage `tokenize`; everything is checked before anything is written."""
    with Session(workers) as session:
        identified = identify(model, weights=False)
        planned = plan_tokenize(Path(store), corpus, identified, settings)
        with writing(store) as writer:
            run_stage(writer, planned, session)
    return StoreReader.open(store)


def run_extract(store: str | Path, settings: BuildSettings) -> StoreReader:
    """Run `tokenize` and `extract`; everything is checked before anything is written."""
    with Session(settings.workers) as session:
        inputs = building.find_inputs(Path(store), settings, session)
        with writing(store) as writer:
            run_stage(writer, inputs.corpus, session)
            building.extract_keys(writer, settings, inputs, session)
    return StoreReader.open(store)


def run_cluster(
    store: str | Path, settings: ClusterSettings, workers: WorkerSettings
) -> StoreReader:
    """Run the stage `cluster/NAME` over a store whose extraction is finished."""
    Store.open(store).stage("extract")
    with Session(workers) as session, writing(store) as writer:
        run_clustering(writer, settings, session)
    return StoreReader.open(store)


def run_index(store: str | Path, settings: IndexSettings, workers: WorkerSettings) -> StoreReader:
    """Run the stage `index/NAME`; everything is checked before anything is written."""
    planned = plan_index(Store.open(Path(store).resolve()), settings, workers.threads)
    with Session(workers) as session, writing(store) as writer:
        run_stage(writer, planned, session)
    return StoreReader.open(store)


def run_compile(
    store: str | Path, settings: CompileSettings, workers: WorkerSettings
) -> StoreReader:
    """Run the stages `codec/NAME` and `compile/NAME` over a store that was clustered."""
    Store.open(store).stage(f"cluster/{settings.states}")
    with Session(workers) as session, writing(store) as writer:
        compile_automaton(writer, settings, session)
    return StoreReader.open(store)


def run_suffix(store: str | Path, settings: SuffixSettings, workers: WorkerSettings) -> StoreReader:
    """Run the stage `suffix/NAME` over a store whose corpus is tokenised."""
    planned = plan_suffix(Store.open(Path(store).resolve()), settings)
    with Session(workers) as session, writing(store) as writer:
        run_stage(writer, planned, session)
    return StoreReader.open(store)


def run_statistics(store: str | Path, workers: WorkerSettings) -> StoreReader:
    """Run the stage `statistics` over a store whose corpus is tokenised."""
    opened = Store.open(Path(store).resolve())
    opened.stage("tokenize")
    with Session(workers) as session, writing(store) as writer:
        run_stage(writer, StatisticsPlan(opened, opened.path), session)
    return StoreReader.open(store)


def run_build(store: str | Path, settings: BuildSettings) -> StoreReader:
    """Run all stages by one session's actors.

    What is wrong with any of them, a disk that is too small among it, is refused before anything
    is written or, if it takes the number of entries to see it, before the model is run.
    """
    with Session(settings.workers) as session:
        inputs = building.find_inputs(Path(store), settings, session)
        building.check_later(Path(store), settings, inputs.outlined.dimension)
        check_least(Path(store), settings, inputs)
        check = partial(check_disk, Path(store), settings, inputs)
        with writing(store) as writer:
            building.build(writer, settings, inputs, session, check)
    return StoreReader.open(store)
