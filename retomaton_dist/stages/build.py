"""A whole build: all stages in order, and what is wrong with any of them said before the first."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.errors import BadInput
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.tokenizer import check_vocabulary
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import BuildSettings, IndexSettings
from retomaton_dist.settings.entrances import in_table
from retomaton_dist.stages import cluster, compile, extract, index, suffix  # noqa: A004 - the stage
from retomaton_dist.stages.extract import ExtractPlan, Windowing
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.statistics import StatisticsPlan
from retomaton_dist.stages.tokenize import TokenizePlan, plan_tokenize
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.manifest import MANIFEST_NAME
from retomaton_dist.storage.store import Store, StoreWriter


@dataclass(frozen=True)
class BuildInputs:
    """Corpus and model, found and checked, before anything is written."""

    corpus: TokenizePlan
    outlined: ModelOutline
    windowing: Windowing

    def shape(self, entries: int, settings: BuildSettings) -> Shape:
        """Shape of the datastore that extraction makes of so many entries."""
        chunk_entries = settings.extract.chunk_entries
        return extract.choose_shape(entries, self.outlined.dimension, chunk_entries)


def find_inputs(store: Path, settings: BuildSettings, session: Session) -> BuildInputs:
    """Find corpus and model, and check the settings of `tokenize` and `extract` against them."""
    identified = identify(settings.model)
    corpus = plan_tokenize(store, settings.corpus, identified, settings.tokenize)
    outlined = outline(identified[0])
    check_vocabulary(corpus.tokenizer, outlined.vocabulary)
    windowing = extract.resolve(settings.extract, settings.model, outlined, session)
    return BuildInputs(corpus, outlined, windowing)


def check_later(store: Path, settings: BuildSettings, dimension: int) -> None:
    """Refuse settings of later stages that are wrong for keys of this width in this store.

    The store need not be there.
    """
    check_widths(settings, dimension)
    with in_table("compile"):
        _check_clustering(store, settings)


def check_widths(settings: BuildSettings, dimension: int) -> None:
    """Refuse settings of later stages that are wrong for keys of this width in any store."""
    with in_table("index"):
        index.check_settings(settings.index, dimension)
    with in_table("compile"):
        compile.check_settings(settings.compile, dimension)


def check_fit(settings: BuildSettings, shape: Shape) -> None:
    """Refuse settings of later stages that do not fit so many entries."""
    with in_table("cluster"):
        cluster.check_fit(settings.cluster, shape)
    with in_table("index"):
        _check_greedy(settings, shape)
        index.resolve(settings.index, shape)


def _check_clustering(store: Path, settings: BuildSettings) -> None:
    """What is compiled is made by the build, or is there."""
    wanted, made = settings.compile.states, settings.cluster.clustering
    there = Store.open(store).clusterings() if (store / MANIFEST_NAME).exists() else []
    if wanted != made and wanted not in there:
        raise BadInput(
            f"--states {wanted}: the build makes the clustering {made}, and there is no {wanted} "
            f"in {store}; leave `states` out, or make that clustering first"
        )


def _check_greedy(settings: BuildSettings, shape: Shape) -> None:
    """Greedy merging of many entries makes itself the index that it searches."""
    usual = IndexSettings()
    makes_one = settings.cluster.algorithm == "greedy" and cluster.needs_index(shape)
    if makes_one and settings.index.name == usual.name and settings.index != usual:
        raise BadInput(
            f"--name {usual.name}: greedy merging of so many entries makes an index of this name, "
            f"with default settings; give yours another name"
        )


def _undo(writer: StoreWriter, plan: TokenizePlan) -> None:
    """Leave nothing of a store that was begun with settings that no store of it could have."""
    stage = writer.manifest.stages[plan.name]
    writer.abandon(plan.name)
    for path in stage.files:
        (writer.path / path).unlink(missing_ok=True)


def extract_keys(
    writer: StoreWriter, settings: BuildSettings, inputs: BuildInputs, session: Session
) -> None:
    """Run `extract` over the corpus that `tokenize` has made, or what is missing of it."""
    plan = ExtractPlan(
        Store.open(writer.path.resolve()),
        inputs.outlined,
        inputs.windowing,
        settings.extract.chunk_entries,
        session.settings.threads,
    )
    run_stage(writer, plan, session)


def build(
    writer: StoreWriter,
    settings: BuildSettings,
    inputs: BuildInputs,
    session: Session,
    check_shape: Callable[[Shape], None],
) -> None:
    """Run all stages, or what is missing of them, by one session's actors.

    `check_shape` may refuse what the corpus turns out to need, as BadInput.
    """
    new = not writer.manifest.stages
    tokenized = run_stage(writer, inputs.corpus, session)
    try:
        shape = inputs.shape(tokenized.facts["entries"], settings)
        check_fit(settings, shape)
        check_shape(shape)
    except BadInput:
        if new:
            _undo(writer, inputs.corpus)
        raise
    extract_keys(writer, settings, inputs, session)
    cluster.cluster(writer, settings.cluster, session)
    store = Store.open(writer.path.resolve())
    run_stage(writer, index.plan_index(store, settings.index, session.settings.threads), session)
    compile.compile_automaton(writer, settings.compile, session)
    run_stage(writer, suffix.plan_suffix(store, settings.suffix), session)
    run_stage(writer, StatisticsPlan(store, store.path), session)
