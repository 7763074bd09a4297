"""Training a k-means over a store, with a checkpoint after every step of it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from retomaton_dist.clustering.assign import Cells
from retomaton_dist.clustering.draw import first_centroids
from retomaton_dist.clustering.lloyd import Iteration, LloydProgress, Stop, lloyd
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import Shares
from retomaton_dist.clustering.two_level import CellPlan, TwoLevel, plan_cells, split_cells
from storage import checkpoint
from storage.checkpoint import Arrays

SUMS_MEMORY = 256 << 20
NAME = "checkpoint.arrow"


@dataclass(frozen=True)
class Recipe:
    """Every setting of a k-means, with `auto` found out; `two_level` says which path it takes."""

    states: int
    iterations: int
    rows: int
    seed: int
    two_level: bool


@dataclass(frozen=True)
class Trained:
    """The result: centroids, the cells they are looked up through, and what each iteration saw."""

    progress: LloydProgress
    cells: Cells | None


@dataclass(frozen=True)
class Saved:
    """Where the checkpoints of one training lie."""

    folder: Path
    config_hash: str

    def load(self) -> Trained | CellPlan | None:
        """What was reached before this run: a plan of cells, some iterations, or nothing."""
        found = checkpoint.load(self.folder / NAME, self.config_hash)
        if found is None:
            return None
        arrays, facts = found
        if "history" not in facts:
            return CellPlan(arrays["centres"], arrays["states"])
        history = tuple(Iteration(**item) for item in facts["history"])
        progress = LloydProgress(arrays["centroids"], arrays.get("before"), history)
        return Trained(progress, _cells(arrays, facts["probes"]))

    def plan(self, plan: CellPlan) -> None:
        """Save a plan of cells."""
        self._save({"centres": plan.centres, "states": plan.states}, {})

    def trained(self, now: Trained) -> None:
        """Save centroids after an iteration."""
        arrays: Arrays = {"centroids": now.progress.centroids}
        if now.progress.before is not None:
            arrays["before"] = now.progress.before
        if now.cells is not None:
            arrays |= {"centres": now.cells.centres, "offsets": now.cells.offsets}
        history = [asdict(iteration) for iteration in now.progress.history]
        probes = now.cells.probes if now.cells else 0
        self._save(arrays, {"history": history, "probes": probes})

    def discard(self) -> None:
        """Remove the checkpoint: the stage is done."""
        (self.folder / NAME).unlink(missing_ok=True)

    def _save(self, arrays: Arrays, facts: dict[str, object]) -> None:
        checkpoint.save(self.folder / NAME, self.config_hash, arrays, facts)


def train(
    shares: Shares,
    recipe: Recipe,
    saved: Saved,
    blocking: Blocking,
    show: Callable[[LloydProgress], None],
) -> Trained:
    """Run k-means, or go on from its checkpoint; the bits are the same either way."""
    start = _start(shares, recipe, saved, blocking)
    show(start.progress)

    def report(progress: LloydProgress) -> None:
        saved.trained(Trained(progress, start.cells))
        show(progress)

    stop = Stop(recipe.iterations)
    progress = lloyd(shares, start.progress, stop, SUMS_MEMORY, start.cells, report)
    return Trained(progress, start.cells)


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
        saved.plan(reached)
    else:
        shares.assign(reached.centres, None)
    cells, progress = split_cells(shares, reached, settings, recipe.seed)
    started = Trained(progress, cells)
    saved.trained(started)
    return started


def _cells(arrays: Arrays, probes: int) -> Cells | None:
    if "centres" not in arrays:
        return None
    return Cells(arrays["centres"], arrays["offsets"].astype(np.int64), probes)
