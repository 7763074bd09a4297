"""Greedy merging over a store: neighbours of every entry in units, then one merging pass."""

from functools import cached_property, partial
from pathlib import Path

import numpy as np

from retomaton_dist.clustering.greedy import (
    EXACT_ENTRIES,
    Entries,
    FindNeighbours,
    exact_neighbours,
    merge,
    numbered,
)
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.search.searcher import LocalSearcher
from retomaton_dist.search.settings import IndexSettings
from retomaton_dist.settings import ClusterSettings
from retomaton_dist.stages import index as indexing
from retomaton_dist.stages.chunk_units import chunk_units
from retomaton_dist.stages.clustering_facts import finish_clustering
from retomaton_dist.stages.runner import Plan, begin, run_missing
from storage import records, states
from storage.canonical import Json
from storage.datastore import Datastore
from storage.records import Record
from storage.states import States
from storage.store import Store, StoreWriter
from storage.verify import check_chunks

UNIT_ENTRIES = 1 << 14


def cluster_greedily(
    writer: StoreWriter, name: str, settings: ClusterSettings, store: Store, session: Session
) -> None:
    """Run the stage, or what is missing of it."""
    if settings.neighbours < 1:
        raise BadInput(f"--neighbours {settings.neighbours}: at least 1 is needed")
    datastore = store.datastore()
    config: Json = {
        "datastore": writer.manifest.require("extract", writer.path).digest,
        "algorithm": "greedy",
        "neighbours": settings.neighbours,
        "seed": settings.seed,
        "index": _index_digest(writer, store, datastore.shape.entries, session),
    }
    units, work = chunk_units(datastore.shape, UNIT_ENTRIES)
    plan = Plan(name, config, units, work, "entries")
    missing = begin(writer, plan, session)
    if missing is None:
        return
    clustering = name.removeprefix("cluster/")
    device = "cuda" if session.has_gpu() else "cpu"
    make = partial(
        NeighbourWorker, store, clustering, plan.config_hash, settings.neighbours, device
    )
    run_missing(plan, missing, make, session)
    _finish(writer, name, datastore, plan, settings)


class NeighbourWorker:
    """Writes the nearest entries of every entry of whole chunks."""

    def __init__(
        self, store: Store, name: str, config_hash: str, neighbours: int, device: str
    ) -> None:
        self._store, self._name, self._config_hash = store, name, config_hash
        self._neighbours, self._blocking = neighbours, Blocking(device=device)
        self._datastore = store.datastore()

    @cached_property
    def _find(self) -> FindNeighbours:
        if self._datastore.shape.entries > EXACT_ENTRIES:
            return indexed_neighbours(self._store, self._neighbours)
        return exact_neighbours(self._datastore.keys, self._neighbours, self._blocking)

    def run(self, unit: tuple[int, range]) -> Json:
        """Find the neighbours of the unit's entries and write them, then the record."""
        number, chunks = unit
        check_chunks(self._store, chunks, ("keys", "values"))
        first, last = self._datastore.shape.entry_range(chunks)
        near = self._find(slice(first, last))
        files = states.write_neighbours(self._store.path, self._name, number, near)
        stage = f"cluster/{self._name}"
        records.write(self._store.path, stage, Record(number, self._config_hash, files))
        return {"entries": last - first}


def _neighbours(store: Path, name: str, plan: Plan[range], ranks: int) -> FindNeighbours:
    """Read neighbours back, unit by unit: blocks of the merging pass lie inside units."""
    bounds = np.cumsum([0, *plan.work])

    def find(part: slice) -> Entries:
        first = int(np.searchsorted(bounds, part.start, side="right")) - 1
        last = int(np.searchsorted(bounds, part.stop, side="left"))
        units = [states.read_neighbours(store, name, unit, ranks) for unit in range(first, last)]
        start = part.start - int(bounds[first])
        return np.concatenate(units)[start : start + part.stop - part.start]

    return find


def _finish(
    writer: StoreWriter,
    name: str,
    datastore: Datastore,
    plan: Plan[range],
    settings: ClusterSettings,
) -> None:
    store, clustering = writer.path, name.removeprefix("cluster/")
    near = _neighbours(store, clustering, plan, settings.neighbours)
    numbers, representatives = numbered(merge(near, datastore.values, settings.seed, UNIT_ENTRIES))
    files = states.write_states(store, clustering, numbers.astype(states.STATE_TYPE))
    files |= states.write_column(store, clustering, "representatives", representatives)
    folder = states.folder_of(store, clustering)
    made = States(folder, "greedy", len(representatives), datastore)
    finish_clustering(writer, name, made, files, {})
    states.discard_parts(store, clustering)


def _index_digest(writer: StoreWriter, store: Store, entries: int, session: Session) -> str | None:
    """Digest of the index that finds the neighbours, built first if need be; None: exact search."""
    if entries <= EXACT_ENTRIES:
        return None
    settings = IndexSettings()
    indexing.index(
        writer, indexing.plan_index(store, settings, session.settings.threads), settings, session
    )
    return writer.manifest.require(f"index/{settings.name}", store.path).digest


def indexed_neighbours(store: Store, k: int) -> FindNeighbours:
    """Prepare to find the `k` nearest other entries of any entries with the store's index."""
    keys = store.datastore().keys
    searcher = LocalSearcher(IndexFiles.open(store, IndexSettings().name))

    def find(part: slice) -> Entries:
        _, near = searcher.search(keys[part].astype(np.float32), k + 1)
        own = near == np.arange(part.start, part.stop)[:, None]
        # An approximate index may not find the entry itself: then the last one is one too many.
        own[~own.any(axis=1), -1] = True
        others: Entries = near[~own].reshape(-1, k)
        return others

    return find
