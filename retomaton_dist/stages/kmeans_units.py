"""The units of a k-means: small, stateless, and done again by anybody if their worker is lost.

    to order the rows     FindCells, SeeCells, PlaceRows (or CopyRows, where there are no cells)
    to begin              WeighCells, SplitCells
    in every iteration    AssignRows, then MoveRange: each key is read once, each sum added once

The runner has them done in open rounds; a unit's record lies in scratch (`kmeans_files.py`).
"""

import itertools
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass

import numpy as np

from retomaton_dist.clustering.arrays import Keys
from retomaton_dist.clustering.assign import Nearest, find_among_all, find_in_seen_cells
from retomaton_dist.clustering.cell_order import (
    WEIGHED_ROWS,
    count_rows,
    limited,
    runs_of,
    weigh,
)
from retomaton_dist.clustering.cells import NearCells, cell_finder
from retomaton_dist.clustering.draw import drawn
from retomaton_dist.clustering.lloyd import cluster_rows
from retomaton_dist.clustering.samples import rows_seen
from retomaton_dist.clustering.sums import digits_of
from retomaton_dist.clustering.tally import Tally, add_tally, empty_range, norms_of, tally_of
from retomaton_dist.clustering.two_level import TwoLevel, split_rows
from retomaton_dist.clustering.update import moved_centroids
from retomaton_dist.stages.kmeans_files import digest_of_rows, iteration_name
from retomaton_dist.stages.kmeans_job import TrainingJob
from retomaton_dist.stages.kmeans_recipe import recipe_of_cells
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage.canonical import Json

TALLIED = ("states", "counts", "spreads", "keys", "magnitudes")


@dataclass(frozen=True)
class TrainingUnit(ABC):
    """A unit over first..last-1 of what its kind works on."""

    first: int
    last: int

    @property
    @abstractmethod
    def kind(self) -> str:
        """Where records of these units lie."""

    @abstractmethod
    def do(self, job: TrainingJob) -> Done:
        """Do the unit durably."""


class TrainingWorker:
    """Does units of any kind for one training."""

    def __init__(self, job: TrainingJob) -> None:
        self._job = job

    def run(self, number: int, payload: TrainingUnit) -> Done:  # noqa: ARG002 - units know theirs
        """Do one unit."""
        return payload.do(self._job)


class FindCells(TrainingUnit):
    """Find the cells, where that is so little work that rounds of units would only delay it."""

    kind = "found"

    def do(self, job: TrainingJob) -> Done:
        """Write their centres: a k-means of its own, in memory."""
        recipe = recipe_of_cells(job.recipe, job.dimension)
        rows = np.sort(drawn(self.last, recipe.rows, recipe.seed))
        keys, sizes = job.reader.rows(rows), (recipe.states, recipe.iterations, recipe.seed)
        centres = cluster_rows(keys, *sizes, job.blocking)
        array = job.files.of_cells.centroids(0, *centres.shape)
        array.make()
        array.write([(0, centres)])
        return Done(facts=piece_facts(0, centres))


class SeeCells(TrainingUnit):
    """Find the cells that the rows among the entries first..last-1 see."""

    kind = "near"

    def do(self, job: TrainingJob) -> Done:
        """Leave them, and how many rows each cell is nearest to."""
        find = cell_finder(job.coarse, job.blocking, ranked=True)
        near = find(job.entry_keys(self.first, self.last))
        counts = count_rows(near, len(job.coarse.centres))
        return Done(arrays={"near": near, "counts": counts})


@dataclass(frozen=True)
class PlaceRows(TrainingUnit):
    """Write the rows among the entries first..last-1 to their places in the order of cells.

    It is unit `number` of so many.
    """

    number: int
    units: int

    kind = "placed"

    def do(self, job: TrainingJob) -> Done:
        """Write a run of rows for each cell that is nearest to some."""
        near = job.files.left(SeeCells.kind, self.number, "near")[0]["near"]
        places = job.files.places(self.units, len(job.coarse.centres)).map()[self.number]
        keys, runs = job.entry_keys(self.first, self.last), list(runs_of(near, places))
        job.keys_array.write((run.place, keys[run.rows]) for run in runs)
        job.cells_array.write((run.place, near[run.rows]) for run in runs)
        return Done()


@dataclass(frozen=True)
class CopyRows(TrainingUnit):
    """Write the rows among the entries first..last-1 one after the other, from `place` on."""

    place: int

    kind = "placed"

    def do(self, job: TrainingJob) -> Done:
        """Copy their keys."""
        job.keys_array.write([(self.place, job.entry_keys(self.first, self.last))])
        return Done()


class WeighCells(TrainingUnit):
    """Weigh the cells first..last-1 by what their rows lie apart."""

    kind = "weighed"

    def do(self, job: TrainingJob) -> Done:
        """Leave their weights."""
        bounds = job.row_offsets[self.first : self.last + 1].tolist()
        weights = [
            weigh(_some_rows(job, begin, end, WEIGHED_ROWS), end - begin, job.blocking)
            for begin, end in itertools.pairwise(bounds)
        ]
        return Done(arrays={"weights": np.array(weights, np.float64)})


class SplitCells(TrainingUnit):
    """Split the cells first..last-1, each on its own: the centroids that iterations begin with."""

    kind = "split"

    def do(self, job: TrainingJob) -> Done:
        """Write the centroids of the cells' states."""
        rows, states = job.row_offsets, job.state_offsets
        begin, end = int(states[self.first]), int(states[self.last])
        centroids = np.empty((end - begin, job.dimension), np.float32)
        for cell in range(self.first, self.last):
            some = slice(int(states[cell]) - begin, int(states[cell + 1]) - begin)
            count, settings = some.stop - some.start, TwoLevel()
            if count:
                limit = split_rows(count, job.dimension, settings)
                keys = _some_rows(job, int(rows[cell]), int(rows[cell + 1]), limit)
                centroids[some] = cluster_rows(
                    keys, count, settings.split_iterations, job.recipe.seed, job.blocking
                )
        job.centroids_array(0).write([(begin, centroids)])
        return Done(facts=piece_facts(begin, centroids))


def _some_rows(job: TrainingJob, first: int, last: int, limit: int) -> np.ndarray:
    keys = job.row_keys(first, last)
    if last - first <= limit:
        return keys
    return keys[limited(first, last, limit, job.recipe.seed) - first]


def piece_facts(first: int, centroids: np.ndarray) -> Json:
    """What is kept of centroids that were written: where, their digest, and their lengths."""
    piece = {"first": first, "last": first + len(centroids), "digest": digest_of_rows(centroids)}
    return {"piece": piece, "norms": asdict(norms_of(centroids))}


@dataclass(frozen=True)
class AssignRows(TrainingUnit):
    """Give those of the rows first..last-1 that are seen their states, and add up the members.

    One row in `stride` is seen; where `compares`, all are, as in the iteration before, by the unit
    of the same `number`.
    """

    number: int
    iteration: int
    spread_unit: float
    stride: int
    compares: bool

    @property
    def kind(self) -> str:
        """Of the iteration."""
        return f"{iteration_name(self.iteration)}/assigned"

    def do(self, job: TrainingJob) -> Done:
        """Leave the rows' states, how many have moved, and the tally of the states they are in."""
        keys, near = self._rows(job)
        nearest = self._find(job, keys, near)
        tally = tally_of(keys, nearest, self.spread_unit)
        arrays = {name: getattr(tally, name) for name in TALLIED}
        arrays |= {"row_states": nearest.states, "digits": digits_of(nearest.distances)}
        return Done(facts={"moved": self._moved(job, nearest), "seen": len(keys)}, arrays=arrays)

    def _rows(self, job: TrainingJob) -> tuple[Keys, NearCells | None]:
        """The keys of the rows that are seen, and the cells that these see."""
        keys = job.row_keys(self.first, self.last)
        near = job.row_cells(self.first, self.last) if job.recipe.two_level else None
        if self.stride == 1:
            return keys, near
        rows = rows_seen(self.first, self.last, self.iteration, self.stride) - self.first
        return keys[rows], None if near is None else near[rows]

    def _find(self, job: TrainingJob, keys: Keys, near: NearCells | None) -> Nearest:
        centroids = job.centroids_array(self.iteration).map()
        if near is None:
            return find_among_all(centroids, job.blocking)(keys)
        return find_in_seen_cells(centroids, job.state_offsets, job.blocking)(keys, near)

    def _moved(self, job: TrainingJob, nearest: Nearest) -> int:
        if not self.compares:
            return len(nearest.states)
        kind = f"{iteration_name(self.iteration - 1)}/assigned"
        before = job.files.left(kind, self.number, "row_states")[0]["row_states"]
        return int(np.count_nonzero(before != nearest.states))


@dataclass(frozen=True)
class MoveRange(TrainingUnit):
    """Move the centroids of the cells first..last-1 to the means of their members.

    The tallies of all rows' units are mapped, but of each only what belongs to these cells is
    read. Without cells, all states are one.
    """

    iteration: int
    spread_unit: float
    units: int

    @property
    def kind(self) -> str:
        """Of the iteration."""
        return f"{iteration_name(self.iteration)}/moved"

    def do(self, job: TrainingJob) -> Done:
        """Write the centroids that the next iteration begins with."""
        whole = np.array([0, job.recipe.states])
        offsets = job.state_offsets if job.recipe.two_level else whole
        offsets = offsets[self.first : self.last + 1]
        total = empty_range(int(offsets[0]), int(offsets[-1]), job.dimension)
        assigned = f"{iteration_name(self.iteration)}/assigned"
        for unit in range(self.units):
            arrays, _ = job.files.left(assigned, unit, *TALLIED)
            add_tally(total, Tally(**arrays))
        after = moved_centroids(total, self.spread_unit, offsets)
        first = total.sums.first
        job.centroids_array(self.iteration + 1).write([(first, after.centroids)])
        empty = int(np.count_nonzero(total.counts == 0))
        facts = {"empty": empty, "refilled": after.filled}
        return Done(facts={**facts, **piece_facts(first, after.centroids)})
