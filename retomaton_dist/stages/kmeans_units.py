"""The units of a k-means: small, stateless, and done again by anybody if their worker is lost.

    to order the rows     FindCells, SeeCells, PlaceRows (or CopyRows, where there are no cells)
    to begin              WeighCells, SplitCells
    in every iteration    AssignRows, then MoveRange: each key is read once, each sum added once

The runner has them done in open rounds; a unit's record lies in scratch (`kmeans_job.py`).
"""

import itertools
from dataclasses import asdict, dataclass

import numpy as np

from retomaton_dist.clustering.arrays import Keys
from retomaton_dist.clustering.assign import (
    Nearest,
    cell_finder,
    find_among_all,
    find_in_seen_cells,
)
from retomaton_dist.clustering.cell_order import (
    WEIGHED_ROWS,
    count_rows,
    limited,
    runs_of,
    split_rows,
    weigh,
)
from retomaton_dist.clustering.draw import drawn
from retomaton_dist.clustering.lloyd import cluster_rows
from retomaton_dist.clustering.recipe import SPLIT_ITERATIONS, recipe_of_cells
from retomaton_dist.clustering.samples import rows_seen, tells_moves
from retomaton_dist.clustering.sums import Tally, add_tally, digits_of, empty_range, tally_of
from retomaton_dist.clustering.update import moved_centroids
from retomaton_dist.stages.kmeans_job import (
    CentroidPiece,
    TrainingJob,
    TrainingUnit,
    iteration_name,
)
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.scratch import ScratchArray

TALLIED = ("states", "counts", "spreads", "keys", "magnitudes")


class TrainingWorker:
    """Does units of any kind for one training."""

    def __init__(self, job: TrainingJob) -> None:
        self._job = job

    def run(self, number: int, payload: TrainingUnit) -> Done:
        """Do one unit."""
        return payload.do(self._job, number)


def write_piece(array: ScratchArray, first: int, centroids: np.ndarray) -> Json:
    """Write centroids that begin with `first`; return what a training's state is made of."""
    array.write([(first, centroids)])
    return {"piece": asdict(CentroidPiece.of(first, centroids))}


class FindCells(TrainingUnit):
    """Find the cells, where that is so little work that rounds of units would only delay it."""

    kind = "found"

    def do(self, job: TrainingJob, _number: int, /) -> Done:
        """Write their centres: a k-means of its own, in memory."""
        recipe = recipe_of_cells(job.recipe, job.dimension)
        rows = np.sort(drawn(self.last, recipe.rows, recipe.seed))
        keys, sizes = job.reader.rows(rows), (recipe.states, recipe.iterations, recipe.seed)
        centres = cluster_rows(keys, *sizes, job.blocking)
        array = job.files.of_cells.centroids(0, *centres.shape)
        array.make()
        return Done(facts=write_piece(array, 0, centres))


@dataclass(frozen=True)
class EntryUnit(TrainingUnit):
    """The rows among the entries first..last-1; `before` so many rows come in order of entries."""

    before: int


class SeeCells(EntryUnit):
    """Find the cells that rows see."""

    kind = "near"

    def do(self, job: TrainingJob, _number: int, /) -> Done:
        """Write them, and leave how many rows each cell is nearest to."""
        find = cell_finder(job.coarse, job.blocking, ranked=True)
        near = find(job.entry_keys(self.first, self.last))
        job.files.seen_cells(job.recipe.rows).write([(self.before, near)])
        return Done(arrays={"counts": count_rows(near, len(job.coarse.centres))})


@dataclass(frozen=True)
class PlaceRows(EntryUnit):
    """Write rows to their places in the order of cells; there are so many `units`."""

    units: int

    kind = "placed"

    def do(self, job: TrainingJob, number: int, /) -> Done:
        """Write a run of rows for each cell that is nearest to some."""
        keys = job.entry_keys(self.first, self.last)
        seen = job.files.seen_cells(job.recipe.rows).map()
        near = seen[self.before : self.before + len(keys)]
        runs = list(runs_of(near, job.places_array(self.units).map()[number]))
        job.keys_array.write((run.place, keys[run.rows]) for run in runs)
        job.cells_array.write((run.place, near[run.rows]) for run in runs)
        return Done()


class CopyRows(EntryUnit):
    """Write rows one after the other."""

    kind = "placed"

    def do(self, job: TrainingJob, _number: int, /) -> Done:
        """Copy their keys."""
        job.keys_array.write([(self.before, job.entry_keys(self.first, self.last))])
        return Done()


class WeighCells(TrainingUnit):
    """Weigh the cells first..last-1 by what their rows lie apart."""

    kind = "weighed"

    def do(self, job: TrainingJob, _number: int, /) -> Done:
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

    def do(self, job: TrainingJob, _number: int, /) -> Done:
        """Write the centroids of the cells' states."""
        rows, states = job.row_offsets, job.state_offsets
        begin, end = int(states[self.first]), int(states[self.last])
        centroids = np.empty((end - begin, job.dimension), np.float32)
        for cell in range(self.first, self.last):
            some = slice(int(states[cell]) - begin, int(states[cell + 1]) - begin)
            count = some.stop - some.start
            if count:
                limit = split_rows(count, job.dimension)
                keys = _some_rows(job, int(rows[cell]), int(rows[cell + 1]), limit)
                centroids[some] = cluster_rows(
                    keys, count, SPLIT_ITERATIONS, job.recipe.seed, job.blocking
                )
        return Done(facts=write_piece(job.centroids_array(0), begin, centroids))


def _some_rows(job: TrainingJob, first: int, last: int, limit: int) -> Keys:
    keys = job.row_keys(first, last)
    if last - first <= limit:
        return keys
    return keys[limited(first, last, limit, job.recipe.seed) - first]


@dataclass(frozen=True)
class IterationUnit(TrainingUnit):
    """A unit of an iteration, whose distances are counted in steps of `spread_unit`."""

    iteration: int
    spread_unit: float


def assigned_in(iteration: int) -> str:
    """Where the records of the rows that an iteration assigned lie."""
    return f"{iteration_name(iteration)}/assigned"


class AssignRows(IterationUnit):
    """Give those of the rows first..last-1 that are seen their states, and add up the members."""

    @property
    def kind(self) -> str:
        """Of the iteration."""
        return assigned_in(self.iteration)

    def do(self, job: TrainingJob, number: int, /) -> Done:
        """Leave the rows' states, how many have moved, and the tally of the states they are in."""
        keys, nearest = self._assigned(job)
        tally = tally_of(keys, nearest, self.spread_unit)
        moved = len(keys)
        if self.iteration and tells_moves(job.strides, self.iteration):
            arrays, _ = job.files.left(assigned_in(self.iteration - 1), number, "row_states")
            moved = int(np.count_nonzero(arrays["row_states"] != nearest.states))
        arrays = {name: getattr(tally, name) for name in TALLIED}
        arrays |= {"row_states": nearest.states, "digits": digits_of(nearest.distances)}
        return Done(facts={"moved": moved, "seen": len(keys)}, arrays=arrays)

    def _assigned(self, job: TrainingJob) -> tuple[Keys, Nearest]:
        """The keys of the rows that are seen, and their states."""
        keys, stride = job.row_keys(self.first, self.last), job.strides[self.iteration]
        centroids = job.centroids_array(self.iteration).map()
        seen = rows_seen(self.first, self.last, self.iteration, stride) - self.first
        keys = keys if stride == 1 else keys[seen]
        if not job.recipe.two_level:
            return keys, find_among_all(centroids, job.blocking)(keys)
        find = find_in_seen_cells(centroids, job.state_offsets, job.blocking)
        return keys, find(keys, job.row_cells[self.first : self.last][seen])


@dataclass(frozen=True)
class MoveRange(IterationUnit):
    """Move the centroids of the cells first..last-1 to the means of their members.

    The tallies of all `units` of rows are mapped, but of each only what belongs to these cells is
    read. Without cells, all states are one.
    """

    units: int

    @property
    def kind(self) -> str:
        """Of the iteration."""
        return f"{iteration_name(self.iteration)}/moved"

    def do(self, job: TrainingJob, _number: int, /) -> Done:
        """Write the centroids that the next iteration begins with."""
        whole = np.array([0, job.recipe.states])
        offsets = job.state_offsets if job.recipe.two_level else whole
        offsets = offsets[self.first : self.last + 1]
        total = empty_range(int(offsets[0]), int(offsets[-1]), job.dimension)
        for unit in range(self.units):
            arrays, _ = job.files.left(assigned_in(self.iteration), unit, *TALLIED)
            add_tally(total, Tally(**arrays))
        after = moved_centroids(total, self.spread_unit, offsets)
        facts = {"empty": int(np.count_nonzero(total.counts == 0)), "refilled": after.filled}
        array = job.centroids_array(self.iteration + 1)
        return Done(facts={**facts, **write_piece(array, total.first, after.centroids)})
