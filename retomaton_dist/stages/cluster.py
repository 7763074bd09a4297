"""The stage `cluster/NAME`: entries with close keys become states.

kmeans   train centroids on a sample (checkpoint after every iteration), then give every entry
         the nearest one, in units
greedy   every entry absorbs near neighbours of equal value
none     every entry is its own state; nothing is stored
"""

import re

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.draw import drawn
from retomaton_dist.clustering.lloyd import LloydProgress
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.sums import total_of
from retomaton_dist.clustering.two_level import wants_two_levels
from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.runtime.progress import showing
from retomaton_dist.settings import ClusterSettings
from retomaton_dist.stages.assign_worker import AssignWorker
from retomaton_dist.stages.chunk_units import chunk_units
from retomaton_dist.stages.clustering_facts import finish_clustering, finish_without_clusters
from retomaton_dist.stages.greedy import cluster_greedily
from retomaton_dist.stages.kmeans import Recipe, Saved, Trained, train
from retomaton_dist.stages.kmeans_shares import RayShares, Sample
from retomaton_dist.stages.runner import Plan, begin
from storage import records, states
from storage.canonical import Json
from storage.datastore import Datastore
from storage.manifest import Stage
from storage.records import Record
from storage.states import States
from storage.store import Store, StoreWriter

ENTRIES_PER_STATE = 100
SAMPLE_PER_STATE = 256
UNIT_ENTRIES = 1 << 18
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def stage_name(settings: ClusterSettings) -> str:
    """Name of the stage, after the clustering or else its algorithm."""
    name = settings.name or settings.algorithm
    if not _NAME.fullmatch(name):
        raise BadInput(f"--name {name}: use letters, digits, '.', '_' and '-'")
    return f"cluster/{name}"


def resolve(settings: ClusterSettings, datastore: Datastore) -> Recipe:
    """Fill in what is `auto` and refuse what cannot be."""
    entries = datastore.shape.entries
    count = max(1, entries // ENTRIES_PER_STATE) if settings.states is None else settings.states
    if not 1 <= count <= entries:
        raise BadInput(f"--states {count}: choose from 1 to the number of entries, {entries:,}")
    if settings.iterations < 1:
        raise BadInput(f"--iterations {settings.iterations}: at least 1 is needed")
    rows = min(entries, settings.sample or SAMPLE_PER_STATE * count)
    if rows < count:
        raise BadInput(f"--sample {rows}: fewer entries than the {count:,} states to learn")
    two_level = wants_two_levels(rows, count, datastore.shape.dimension, settings.iterations)
    return Recipe(count, settings.iterations, rows, settings.seed, two_level)


def cluster(writer: StoreWriter, settings: ClusterSettings, session: Session) -> Stage:
    """Run the stage, or what is missing of it."""
    name = stage_name(settings)
    store = Store.open(writer.path.resolve())
    datastore = store.datastore()
    if settings.algorithm == "none":
        _without_clusters(writer, name, datastore, session)
    elif settings.algorithm == "greedy":
        cluster_greedily(writer, name, settings, store, session)
    else:
        _by_kmeans(writer, name, resolve(settings, datastore), store, session)
    return writer.manifest.stages[name]


def _by_kmeans(
    writer: StoreWriter, name: str, recipe: Recipe, store: Store, session: Session
) -> None:
    datastore = store.datastore()
    plan = _plan(writer, name, recipe, datastore)
    missing = begin(writer, plan, session)
    if missing is None:
        return
    folder = states.folder_of(store.path, name.removeprefix("cluster/"))
    saved = Saved(folder, plan.config_hash)
    blocking = Blocking(device="cuda" if session.has_gpu() else "cpu")
    sample = Sample(store, _drawn(recipe, datastore))
    crew = session.crew(gpu=blocking.device == "cuda")
    with RayShares(sample, crew, blocking, session.settings.unit_timeout) as shares:
        trained = _train(recipe, shares, saved, blocking, session)
        _assign_all(
            plan, missing, shares, AssignWorker(store, folder.name, saved, blocking), session
        )
    _finish(writer, name, plan, recipe, trained, datastore)
    saved.discard()


def _plan(writer: StoreWriter, name: str, recipe: Recipe, datastore: Datastore) -> Plan[range]:
    config: Json = {
        "datastore": writer.manifest.require("extract", writer.path).digest,
        "algorithm": "kmeans",
        **recipe.__dict__,
    }
    units, work = chunk_units(datastore.shape, UNIT_ENTRIES)
    return Plan(name, config, units, work, "entries")


def _train(
    recipe: Recipe, shares: RayShares, saved: Saved, blocking: Blocking, session: Session
) -> Trained:
    reached = saved.load()
    before = len(reached.progress.history) if isinstance(reached, Trained) else 0
    mode = session.settings.progress
    with showing(mode, "kmeans", recipe.iterations, "iterations", before) as progress:

        def show(now: LloydProgress) -> None:
            if now.history:
                progress.advance(len(now.history) - progress.done, _shown(now))

        return train(shares, recipe, saved, blocking, show)


def _assign_all(
    plan: Plan[range],
    missing: list[int],
    shares: RayShares,
    worker: AssignWorker,
    session: Session,
) -> None:
    units = [(unit, plan.units[unit]) for unit in missing]
    before = plan.work_before(missing)
    mode = session.settings.progress
    with showing(mode, plan.name, sum(plan.work), plan.work_name, before) as progress:
        for unit in shares.assign_units(worker, units):
            progress.advance(plan.work[unit])


def _drawn(recipe: Recipe, datastore: Datastore) -> NDArray[np.int64] | None:
    entries = datastore.shape.entries
    return None if recipe.rows == entries else np.sort(drawn(entries, recipe.rows, recipe.seed))


def _shown(progress: LloydProgress) -> Json:
    last = progress.history[-1]
    return {"inertia": f"{last.inertia:.5g}", "moved": f"{last.moved:.1%}", "empty": last.empty}


def _finish(
    writer: StoreWriter,
    name: str,
    plan: Plan[range],
    recipe: Recipe,
    trained: Trained,
    datastore: Datastore,
) -> None:
    """Join the units' states, and store centroids, sizes and statistics."""
    store, clustering = writer.path, name.removeprefix("cluster/")
    units = [records.read(store, name, unit, plan.config_hash) for unit in range(len(plan.units))]
    files = states.merge_parts(store, clustering, len(units))
    centroids = trained.progress.centroids
    files |= states.write_column(store, clustering, "centroids", centroids.reshape(-1))
    facts: Json = {
        "inertia": _total(units, "inertia_digits"),
        "distances": _total(units, "distance_digits"),
        "path": "two-level" if recipe.two_level else "plain",
        "iterations": [iteration.__dict__ for iteration in trained.progress.history],
    }
    made = States(states.folder_of(store, clustering), "kmeans", recipe.states, datastore)
    finish_clustering(writer, name, made, files, facts)
    states.discard_parts(store, clustering)


def _total(units: list[Record], digits: str) -> float:
    return total_of(np.sum([unit.facts[digits] for unit in units], axis=0))


def _without_clusters(
    writer: StoreWriter, name: str, datastore: Datastore, session: Session
) -> None:
    digest = writer.manifest.require("extract", writer.path).digest
    plan: Plan[range] = Plan(name, {"datastore": digest, "algorithm": "none"}, [], [], "entries")
    if begin(writer, plan, session) is not None:
        finish_without_clusters(writer, name, datastore)
