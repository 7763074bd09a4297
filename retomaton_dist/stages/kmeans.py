"""K-means over a store: training with a checkpoint after every step of it, then assignment."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.assign import Cells, FindStates, finder
from retomaton_dist.clustering.draw import drawn, first_centroids
from retomaton_dist.clustering.lloyd import Iteration, LloydProgress, Stop, lloyd, stopped
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import Shares
from retomaton_dist.clustering.sums import digits_of, total_of
from retomaton_dist.clustering.two_level import (
    CellPlan,
    TwoLevel,
    plan_cells,
    split_cells,
    wants_two_levels,
)
from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.progress import showing
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import ClusterSettings
from retomaton_dist.stages.clustering_facts import with_statistics
from retomaton_dist.stages.kmeans_shares import Sample, TeamShares
from retomaton_dist.stages.runner import Done, Plan, chunk_units, chunk_work
from storage import checkpoint, states
from storage.canonical import Json
from storage.checkpoint import Arrays
from storage.datastore import Shape
from storage.guarded import GuardedReader
from storage.records import Record
from storage.states import States
from storage.store import Store

ENTRIES_PER_STATE = 100
SAMPLE_PER_STATE = 256
UNIT_ENTRIES = 1 << 18
SUMS_MEMORY = 256 << 20
CHECKPOINT = "checkpoint.arrow"


@dataclass(frozen=True)
class Recipe:
    """Every setting of a k-means, with `auto` found out; `two_level` says which path it takes."""

    states: int
    iterations: int
    rows: int
    seed: int
    two_level: bool


def resolve(settings: ClusterSettings, shape: Shape) -> Recipe:
    """Fill in what is `auto` and refuse what does not fit so many entries."""
    entries = shape.entries
    count = max(1, entries // ENTRIES_PER_STATE) if settings.states is None else settings.states
    if count > entries:
        raise BadInput(f"--states {count}: choose from 1 to the number of entries, {entries:,}")
    rows = min(entries, settings.sample or SAMPLE_PER_STATE * count)
    if rows < count:
        raise BadInput(f"--sample {rows}: fewer entries than the {count:,} states to learn")
    two_level = wants_two_levels(rows, count, shape.dimension, settings.iterations)
    return Recipe(count, settings.iterations, rows, settings.seed, two_level)


@dataclass(frozen=True)
class KmeansPlan(Plan[range]):
    """The keys of a store, and the states that they are to have."""

    store: Store
    clustering: str
    recipe: Recipe
    blocking: Blocking

    merges = True

    @property
    def name(self) -> str:
        """After the clustering."""
        return f"cluster/{self.clustering}"

    @property
    def gpu(self) -> bool:  # type: ignore[override]
        """As the blocking says."""
        return self.blocking.device == "cuda"

    @cached_property
    def config(self) -> Json:
        """The keys and the recipe; where it is computed changes no bit."""
        return {
            "datastore": self.store.stage("extract").digest,
            "algorithm": "kmeans",
            **self.recipe.__dict__,
        }

    @cached_property
    def units(self) -> list[range]:
        """Whole chunks, to be given their states."""
        return chunk_units(self.store.shape(), UNIT_ENTRIES)

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        return chunk_work(self.store.shape(), self.units)

    @cached_property
    def saved(self) -> "Saved":
        """The checkpoints of the training."""
        return Saved(states.folder_of(self.store.path, self.clustering), self.config_hash)

    def lead(self, session: Session) -> None:
        """Train, or go on training."""
        reached, stop = self.saved.load(), Stop(self.recipe.iterations)
        if isinstance(reached, Trained) and stopped(reached.state, stop):
            return
        before = len(reached.state.history) if isinstance(reached, Trained) else 0
        sample = Sample(GuardedReader(self.store), self._drawn())
        mode = session.settings.progress
        with (
            showing(mode, "kmeans", self.recipe.iterations, "iterations", before) as progress,
            TeamShares(sample, self.blocking, session) as shares,
        ):

            def show(now: LloydProgress) -> None:
                if now.history:
                    progress.advance(len(now.history) - progress.done, _shown(now))

            train(shares, self.recipe, self.saved, self.blocking, show)

    def _drawn(self) -> NDArray[np.int64] | None:
        entries, recipe = self.store.shape().entries, self.recipe
        if recipe.rows == entries:
            return None
        return np.sort(drawn(entries, recipe.rows, recipe.seed))

    def worker(self) -> Callable[[], "AssignWorker"]:
        """Assigns entries."""
        reader = GuardedReader(self.store)
        return partial(AssignWorker, reader, self.clustering, self.saved, self.blocking)

    def finish(self, units: Sequence[Record]) -> Done:
        """Join the units' states, and store centroids, sizes and statistics."""
        trained, store, name = self.saved.trained(), self.store.path, self.clustering
        files = states.merge_parts(store, name, len(units))
        centroids = trained.state.centroids
        files |= states.write_column(store, name, "centroids", centroids.reshape(-1))
        facts: Json = {
            "inertia": _total(units, "inertia_digits"),
            "distances": _total(units, "distance_digits"),
            "path": "two-level" if self.recipe.two_level else "plain",
            "iterations": [asdict(iteration) for iteration in trained.state.history],
        }
        folder, datastore = states.folder_of(store, name), self.store.datastore()
        return with_statistics(
            States(folder, "kmeans", self.recipe.states, datastore), files, facts
        )

    def scratch(self) -> Sequence[Path]:
        """The units' parts, and the checkpoint of the training."""
        return states.parts_of(self.store.path, self.clustering), self.saved.folder / CHECKPOINT


def _shown(now: LloydProgress) -> Json:
    last = now.history[-1]
    return {"inertia": f"{last.inertia:.5g}", "moved": f"{last.moved:.1%}", "empty": last.empty}


def _total(units: Sequence[Record], digits: str) -> float:
    return total_of(np.sum([unit.facts[digits] for unit in units], axis=0))


class AssignWorker:
    """Writes the states of whole chunks of entries; reads the centroids from the checkpoint."""

    def __init__(
        self, reader: GuardedReader, name: str, saved: "Saved", blocking: Blocking
    ) -> None:
        self._reader, self._name, self._saved, self._blocking = reader, name, saved, blocking

    @cached_property
    def _find(self) -> FindStates:
        trained = self._saved.trained()
        return finder(trained.state.centroids, trained.cells, self._blocking)

    def run(self, number: int, payload: range) -> Done:
        """Assign the unit's entries and write their states."""
        first, last = self._reader.shape.entry_range(payload)
        self._reader.check(("values",), first, last)
        nearest = self._find(self._reader.keys(first, last))
        numbers = nearest.states.astype(states.STATE_TYPE)
        files = states.write_part(self._reader.store.path, self._name, number, numbers)
        # Whole numbers per exponent: they add up to the same sum in any order.
        facts = {
            "inertia_digits": digits_of(nearest.distances).tolist(),
            "distance_digits": digits_of(np.sqrt(nearest.distances)).tolist(),
        }
        return Done(files, facts)


@dataclass(frozen=True)
class Trained:
    """The result: centroids, the cells they are looked up through, and what each iteration saw."""

    state: LloydProgress
    cells: Cells | None


@dataclass(frozen=True)
class Saved:
    """Where the checkpoints of one training lie."""

    folder: Path
    config_hash: str

    def load(self) -> Trained | CellPlan | None:
        """What was reached before this run: a plan of cells, some iterations, or nothing."""
        found = checkpoint.load(self.folder / CHECKPOINT, self.config_hash)
        if found is None:
            return None
        arrays, facts = found
        if "history" not in facts:
            return CellPlan(arrays["centres"], arrays["states"])
        history = tuple(Iteration(**item) for item in facts["history"])
        state = LloydProgress(arrays["centroids"], arrays.get("before"), history)
        return Trained(state, _cells(arrays, facts["probes"]))

    def trained(self) -> Trained:
        """What the training has come to."""
        found = self.load()
        assert isinstance(found, Trained), "asked for before the training"
        return found

    def keep_plan(self, plan: CellPlan) -> None:
        """Save a plan of cells."""
        self._save({"centres": plan.centres, "states": plan.states}, {})

    def keep(self, now: Trained) -> None:
        """Save centroids after an iteration."""
        arrays: Arrays = {"centroids": now.state.centroids}
        if now.state.before is not None:
            arrays["before"] = now.state.before
        if now.cells is not None:
            arrays |= {"centres": now.cells.centres, "offsets": now.cells.offsets}
        history = [asdict(iteration) for iteration in now.state.history]
        probes = now.cells.probes if now.cells else 0
        self._save(arrays, {"history": history, "probes": probes})

    def _save(self, arrays: Arrays, facts: dict[str, object]) -> None:
        checkpoint.save(self.folder / CHECKPOINT, self.config_hash, arrays, facts)


def train(
    shares: Shares,
    recipe: Recipe,
    saved: Saved,
    blocking: Blocking,
    show: Callable[[LloydProgress], None],
) -> None:
    """Run k-means, or go on from its checkpoint; the bits are the same either way."""
    start = _start(shares, recipe, saved, blocking)
    show(start.state)

    def report(state: LloydProgress) -> None:
        saved.keep(Trained(state, start.cells))
        show(state)

    lloyd(shares, start.state, Stop(recipe.iterations), SUMS_MEMORY, start.cells, report)


def _start(shares: Shares, recipe: Recipe, saved: Saved, blocking: Blocking) -> Trained:
    reached = saved.load()
    if isinstance(reached, Trained):
        return reached
    if not recipe.two_level:
        first = first_centroids(shares.rows, shares.take, recipe.states, recipe.seed)
        return Trained(LloydProgress(first), None)
    settings = TwoLevel()
    if reached is None:
        reached = plan_cells(shares, recipe.states, settings, recipe.seed, blocking)
        saved.keep_plan(reached)
    else:
        shares.assign(reached.centres, None)
    cells, state = split_cells(shares, reached, settings, recipe.seed)
    started = Trained(state, cells)
    saved.keep(started)
    return started


def _cells(arrays: Arrays, probes: int) -> Cells | None:
    if "centres" not in arrays:
        return None
    return Cells(arrays["centres"], arrays["offsets"].astype(np.int64), probes)
