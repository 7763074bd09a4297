"""Greedy merging over a store: neighbours of every entry in units, then one merging pass.

The pass is sequential by nature: who absorbs whom depends on all visits before. One process makes
it, over arrays that lie on disk.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from retomaton_dist.artifacts import open_index
from retomaton_dist.clustering.arrays import blocks_of
from retomaton_dist.clustering.greedy import (
    EXACT_ENTRIES,
    Entries,
    FindNeighbours,
    exact_neighbours,
    merge,
    numbered,
)
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.search.searcher import LocalSearcher
from retomaton_dist.settings import ClusterSettings, IndexSettings
from retomaton_dist.stages.cluster import Clustering, KeysPlan, with_statistics
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.index import plan_index
from retomaton_dist.stages.runner import Done, Plan, run_stage
from retomaton_dist.stages.stage import Running
from retomaton_dist.storage import states
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.columns import write_blocks
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.scratch import mapped_zeros
from retomaton_dist.storage.states import States
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.windows import Windows

UNIT_ENTRIES = 1 << 14
# The index that neighbours are searched in, where there are too many entries to compare all pairs.
INDEX = IndexSettings()


class Greedy(Clustering):
    """Entries absorb near neighbours of equal value."""

    def before(self, running: Running) -> None:
        """Many entries find their neighbours with an index: the one of default settings."""
        store = running.store
        if self.makes_index(store.shape()):
            plan = plan_index(store, INDEX, running.session.settings.threads)
            run_stage(running.writer, plan, running.session)

    def makes_index(self, shape: Shape) -> bool:
        """Of more entries than all pairs of can be compared."""
        return shape.entries > EXACT_ENTRIES

    def plan(self, store: Store, settings: ClusterSettings, device: str) -> Plan[Any]:
        """Find neighbours, then merge."""
        index = f"index/{INDEX.name}" if self.makes_index(store.shape()) else None
        chosen = settings.neighbours, settings.seed, index
        return GreedyPlan(store, settings.clustering, Blocking(device=device), *chosen)

    def states(self, settings: ClusterSettings, shape: Shape) -> int:  # noqa: ARG002
        """As many as entries, if none absorbs another."""
        return shape.entries

    def estimate(self, settings: ClusterSettings, work: Work) -> StageEstimate:
        """Every pair of entries is compared if they are few; beyond that nobody knows."""
        entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
        exact = not self.makes_index(work.shape)
        pairs = float(entries) * entries * dimension / rates.products
        neighbours = settings.neighbours
        return StageEstimate(
            stage="cluster",
            makes=f"states/{settings.clustering}: merged with up to {neighbours} neighbours",
            disk=(4.0 + 8 + 8 + 8 * neighbours) * entries,
            memory=work.memory(10.0 * dimension * entries if exact else 0),
            workers=work.workers,
            core_seconds=pairs + work.key_bytes / rates.hashed if exact else math.inf,
            reads=work.key_bytes,
            passes=1,
        )


@dataclass(frozen=True)
class GreedyPlan(KeysPlan):
    """How many neighbours each entry may absorb, and the index that finds them.

    `index` names the index's stage; None: all pairs are compared.
    """

    neighbours: int
    seed: int
    index: str | None

    unit_entries = UNIT_ENTRIES

    @property
    def gpu(self) -> bool:  # type: ignore[override]
        """Where all pairs are compared, as the blocking says."""
        return self.index is None and self.blocking.device == "cuda"

    @cached_property
    def config(self) -> Json:
        """The keys, the settings, and the index by its contents."""
        return {
            "datastore": self.store.stage("extract").digest,
            "algorithm": "greedy",
            "neighbours": self.neighbours,
            "seed": self.seed,
            "index": None if self.index is None else self.store.stage(self.index).digest,
        }

    def worker(self) -> Callable[[], "NeighbourWorker"]:
        """Finds neighbours."""
        return partial(NeighbourWorker, self)

    def finish(self, units: Sequence[Record]) -> Done:  # noqa: ARG002 - their files are read
        """Merge in one pass, and store states, representatives, sizes and statistics."""
        store, name, datastore = self.store.path, self.clustering, self.store.datastore()
        room = partial(mapped_zeros, states.parts_of(store, name))
        values = room("all_values", np.int32, datastore.shape.entries)
        stored = Windows(datastore, "values")
        for part in blocks_of(len(values), UNIT_ENTRIES):
            values[part] = stored[part]
        merged = merge(self._near, values, self.seed, UNIT_ENTRIES, room)
        found = numbered(merged, UNIT_ENTRIES, room)
        folder = states.folder_of(store, name)
        numbers, chosen = folder / "state_of_entry.arrow", folder / "representatives.arrow"
        written = {
            numbers: write_blocks(numbers, "state", states.STATE_TYPE, found.states()),
            chosen: write_blocks(chosen, "representatives", np.int64, found.representatives()),
        }
        files = {path.relative_to(store).as_posix(): digest for path, digest in written.items()}
        return with_statistics(States(folder, "greedy", found.count, datastore), files, {})

    @cached_property
    def _bounds(self) -> Entries:
        """First entry of each unit; then N."""
        return np.cumsum([0, *self.work]).astype(np.int64)

    def _near(self, part: slice) -> Entries:
        """Read neighbours back, unit by unit: blocks of the merging pass lie inside units."""
        bounds = self._bounds
        first = int(np.searchsorted(bounds, part.start, side="right")) - 1
        last = int(np.searchsorted(bounds, part.stop, side="left"))
        return np.concatenate([self._near_in(unit, part) for unit in range(first, last)])

    def _near_in(self, unit: int, part: slice) -> Entries:
        """Neighbours of those entries of a unit that are wanted; no others are read."""
        begin, end = self._bounds[unit : unit + 2]
        rows = slice(max(part.start, begin) - begin, min(part.stop, end) - begin)
        place = self.store.path, self.clustering
        return states.read_neighbours(*place, unit, self.neighbours, rows)

    def scratch(self) -> Sequence[Path]:
        """The units' neighbours, and what merging knows of entries."""
        return (states.parts_of(self.store.path, self.clustering),)


class NeighbourWorker:
    """Writes the nearest entries of every entry of whole chunks."""

    def __init__(self, plan: GreedyPlan) -> None:
        self._plan, self._reader = plan, GuardedReader(plan.store)

    @cached_property
    def _find(self) -> FindNeighbours:
        plan = self._plan
        if plan.index is not None:
            index = plan.index.removeprefix("index/")
            return indexed_neighbours(self._reader, index, plan.neighbours)
        keys = self._reader.keys(0, self._reader.shape.entries)
        return exact_neighbours(keys, plan.neighbours, plan.blocking)

    def run(self, number: int, payload: range) -> Done:
        """Find the neighbours of the unit's entries and write them."""
        first, last = self._reader.shape.entry_range(payload)
        self._reader.check(("keys", "values"), first, last)
        near, plan = self._find(slice(first, last)), self._plan
        return Done(states.write_neighbours(plan.store.path, plan.clustering, number, near))


def indexed_neighbours(reader: GuardedReader, index: str, k: int) -> FindNeighbours:
    """Prepare to find the `k` nearest other entries of any entries with an index of the store."""
    searcher = LocalSearcher(open_index(reader.store, index))

    def find(part: slice) -> Entries:
        keys = reader.keys(part.start, part.stop)
        _, near = searcher.search(keys.astype(np.float32), k + 1)
        own = near == np.arange(part.start, part.stop)[:, None]
        # An approximate index may not find the entry itself: then the last one is one too many.
        own[~own.any(axis=1), -1] = True
        others: Entries = near[~own].reshape(-1, k)
        return others

    return find
