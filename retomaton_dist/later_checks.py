"""Checks of what follows extraction, made before it: hours of work must not end in a slip.

What needs the number of entries to be seen is checked when the corpus is tokenised, before the
model is run.
"""

from pathlib import Path
from typing import Any

from retomaton_dist.automaton.training import choose_code_size
from retomaton_dist.clustering.greedy import EXACT_ENTRIES
from retomaton_dist.errors import BadInput
from retomaton_dist.later_settings import LaterSettings, in_table
from retomaton_dist.search import parameters
from retomaton_dist.search.factory import check_trainable, choose_factory, make_index
from retomaton_dist.search.layout import check_name
from retomaton_dist.search.settings import IndexSettings
from retomaton_dist.settings import ClusterSettings, CompileSettings
from retomaton_dist.stages.cluster import resolve, stage_name
from retomaton_dist.stages.compile import automaton_name
from retomaton_dist.stages.index import fixed_parameters
from storage.datastore import Datastore, Shape
from storage.manifest import MANIFEST_NAME
from storage.store import Store


def check_settings(later: LaterSettings, store: Path, dimension: int) -> None:
    """Refuse whatever is wrong for keys of this width in this store, which need not be there."""
    with in_table("cluster"):
        _check_cluster(later.cluster)
    with in_table("index"):
        _check_index(later.index, dimension)
    with in_table("compile"):
        _check_compile(later.compile, dimension)
        _check_clustering(later, store)


def check_sizes(later: LaterSettings, shape: Shape) -> None:
    """Refuse what does not fit so many entries; `check_settings` comes first."""
    if later.cluster.algorithm == "kmeans":
        with in_table("cluster"):
            resolve(later.cluster, Datastore(Path(), shape))
    with in_table("index"):
        _check_greedy(later, shape)
        empty_index(later.index, shape)


def empty_index(settings: IndexSettings, shape: Shape) -> Any:
    """Make the index that would be trained and filled; refuse one that cannot be."""
    factory = settings.factory or choose_factory(shape.entries, shape.dimension).factory
    empty = make_index(factory, shape.dimension, shape.entries)
    check_trainable(factory, empty, shape.entries, settings.sample)
    parameters.apply(empty, fixed_parameters(settings))
    if settings.shards is not None and settings.shards > shape.chunks:
        raise BadInput(
            f"--shards {settings.shards}: shards are made of whole chunks, of which the store "
            f"would have {shape.chunks}; use at most so many"
        )
    return empty


def _check_cluster(settings: ClusterSettings) -> None:
    stage_name(settings)
    _check_least_one(settings, "states", "iterations", "sample", "neighbours")
    sample, states = settings.sample, settings.states
    if sample is not None and states is not None and sample < states:
        raise BadInput(f"--sample {sample}: fewer entries than the {states:,} states to learn")


def _check_index(settings: IndexSettings, dimension: int) -> None:
    check_name(settings.name)
    _check_least_one(settings, "shards", "sample", "recall_k", "recall_queries", "nprobe")
    if not 0 < settings.target_recall <= 1:
        raise BadInput(f"--target-recall {settings.target_recall}: must be above 0, at most 1")
    fixed = fixed_parameters(settings)
    if settings.factory is not None:
        parameters.apply(make_index(settings.factory, dimension, entries=1), fixed)


def _check_compile(settings: CompileSettings, dimension: int) -> None:
    automaton_name(settings)
    _check_least_one(settings, "unit_entries")
    if settings.codec == "pq":
        choose_code_size(dimension, settings.code_size)


def _check_clustering(later: LaterSettings, store: Path) -> None:
    """What is compiled is made by the build, or is there."""
    wanted = later.compile.states
    there = Store.open(store).clusterings() if (store / MANIFEST_NAME).exists() else []
    if wanted != later.clustering and wanted not in there:
        raise BadInput(
            f"--states {wanted}: the build makes the clustering {later.clustering}, and there is "
            f"no {wanted} in {store}; leave `states` out, or make that clustering first"
        )


def _check_greedy(later: LaterSettings, shape: Shape) -> None:
    """Greedy merging of many entries makes itself the index that it searches."""
    usual = IndexSettings()
    makes_one = later.cluster.algorithm == "greedy" and shape.entries > EXACT_ENTRIES
    if makes_one and later.index.name == usual.name and later.index != usual:
        raise BadInput(
            f"--name {usual.name}: greedy merging of more than {EXACT_ENTRIES:,} entries makes an "
            f"index of this name, with default settings; give yours another name"
        )


def _check_least_one(settings: Any, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise BadInput(f"--{name.replace('_', '-')} {value}: at least 1 is needed")
