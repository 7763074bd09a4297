"""K-means over a store: training with a checkpoint after every iteration, then assignment."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from retomaton_dist.clustering.arrays import Keys
from retomaton_dist.clustering.assign import Nearest, find_in_seen_cells, finder
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import LEVEL_NAMES, Recipe, resolve
from retomaton_dist.clustering.sums import digits_of, total_of
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import ClusterSettings
from retomaton_dist.stages.cluster import Clustering, KeysPlan, with_statistics
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.kmeans_job import (
    SUMS_MEMORY,
    TrainingFiles,
    open_trained,
    training_files,
)
from retomaton_dist.stages.kmeans_training import train_shown
from retomaton_dist.stages.runner import Done, Plan
from retomaton_dist.storage import states
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.states import States
from retomaton_dist.storage.store import Store

UNIT_ENTRIES = 1 << 18


class Kmeans(Clustering):
    """Entries go to the nearest of K centroids."""

    def plan(self, store: Store, settings: ClusterSettings, device: str) -> Plan[Any]:
        """Train, then assign."""
        recipe, blocking = resolve(settings, store.shape()), Blocking(device=device)
        return KmeansPlan(store, settings.clustering, blocking, recipe)

    def states(self, settings: ClusterSettings, shape: Shape) -> int:
        """K."""
        return resolve(settings, shape).states

    def estimate(self, settings: ClusterSettings, work: Work) -> StageEstimate:
        """An iteration reads a row once, if it sees it; rows are sorted by cell, once, on disk."""
        sizes = resolve(settings, work.shape)
        entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
        pairs = sizes.pairs + entries * sizes.per_row
        sampled = 2.0 * sizes.rows * dimension
        centroids = 4.0 * sizes.states * dimension
        reads = sampled * (1 + sizes.passes) + work.key_bytes
        return StageEstimate(
            stage="cluster",
            makes=f"states/{settings.clustering}: {sizes.states:,} states, at most "
            f"{sizes.iterations} iterations",
            disk=4.0 * entries + centroids + 8.0 * sizes.states,
            memory=work.memory(min(SUMS_MEMORY, 2 * centroids) + 6.0 * UNIT_ENTRIES * dimension),
            workers=work.workers,
            core_seconds=pairs * dimension / rates.products + 2 * work.key_bytes / rates.hashed,
            unit=min(UNIT_ENTRIES, entries) * sizes.per_row * dimension / rates.products,
            reads=reads,
            passes=reads / work.key_bytes,
            scratch=centroids + (sampled if sizes.two_level else 0.0),
            exchanged=sizes.iterations * sizes.states * (12 * dimension + 8.0),
        )


@dataclass(frozen=True)
class KmeansPlan(KeysPlan):
    """The keys of a store, and the states that they are to have."""

    recipe: Recipe

    unit_entries = UNIT_ENTRIES

    @cached_property
    def config(self) -> Json:
        """The keys and the recipe; where it is computed changes no bit."""
        return {
            "datastore": self.store.stage("extract").digest,
            "algorithm": "kmeans",
            **asdict(self.recipe),
        }

    @cached_property
    def files(self) -> TrainingFiles:
        """What the training leaves until the stage is done."""
        return training_files(states.folder_of(self.store.path, self.clustering), self.config_hash)

    def lead(self, session: Session) -> None:
        """Train, or go on training."""
        reader = GuardedReader(self.store)
        train_shown("kmeans", session, reader, self.recipe, self.files, self.blocking)

    def worker(self) -> Callable[[], "AssignWorker"]:
        """Assigns entries."""
        return partial(AssignWorker, self)

    def finish(self, units: Sequence[Record]) -> Done:
        """Join the units' states, and store centroids, sizes and statistics."""
        state, store, name = self.files.load(), self.store.path, self.clustering
        assert state is not None, "finished before the training"
        files = states.merge_parts(store, name, len(units))
        centroids = open_trained(GuardedReader(self.store), self.files).centroids
        files |= states.write_column(store, name, "centroids", centroids.reshape(-1))
        facts: Json = {
            "inertia": _total(units, "inertia_digits"),
            "distances": _total(units, "distance_digits"),
            "path": LEVEL_NAMES[state.levels],
            "iterations": [asdict(iteration) for iteration in state.history],
        }
        folder, datastore = states.folder_of(store, name), self.store.datastore()
        return with_statistics(
            States(folder, "kmeans", self.recipe.states, datastore), files, facts
        )

    def scratch(self) -> Sequence[Path]:
        """The units' parts, and what the training left."""
        return states.parts_of(self.store.path, self.clustering), *self.files.scratch


def _total(units: Sequence[Record], digits: str) -> float:
    return total_of(np.sum([unit.facts[digits] for unit in units], axis=0))


class AssignWorker:
    """Writes the states of whole chunks of entries; maps what the training left."""

    def __init__(self, plan: KmeansPlan) -> None:
        self._plan, self._reader = plan, GuardedReader(plan.store)

    @cached_property
    def _find(self) -> Callable[[Keys, slice], Nearest]:
        """Gives the entries of a range, whose keys are given, their states."""
        files, blocking = self._plan.files, self._plan.blocking
        trained = open_trained(self._reader, files)
        seen = files.seen_cells(self._reader.shape.entries)
        if trained.cells is None or not seen.path.exists():
            find = finder(trained.centroids, trained.cells, blocking)
            return lambda keys, _: find(keys)
        # All entries were trained on: the cells that they see are known.
        near, offsets = seen.map(), trained.cells.offsets
        find_in_seen = find_in_seen_cells(trained.centroids, offsets, blocking)
        return lambda keys, part: find_in_seen(keys, near[part])

    def run(self, number: int, payload: range) -> Done:
        """Assign the unit's entries and write their states."""
        first, last = self._reader.shape.entry_range(payload)
        self._reader.check(("values",), first, last)
        nearest = self._find(self._reader.keys(first, last), slice(first, last))
        numbers = nearest.states.astype(states.STATE_TYPE)
        files = states.write_part(self._plan.store.path, self._plan.clustering, number, numbers)
        # Whole numbers per exponent: they add up to the same sum in any order.
        facts = {
            "inertia_digits": digits_of(nearest.distances).tolist(),
            "distance_digits": digits_of(np.sqrt(nearest.distances)).tolist(),
        }
        return Done(files, facts)
