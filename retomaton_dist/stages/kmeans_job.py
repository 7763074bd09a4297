"""One training of a k-means as workers see it: its rows, its centroids and its cells, mapped."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from retomaton_dist.clustering.arrays import Centroids, Counts, Keys
from retomaton_dist.clustering.cells import Cells, NearCells
from retomaton_dist.clustering.draw import Draw
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.samples import strides_for
from retomaton_dist.clustering.two_level import TwoLevel
from retomaton_dist.stages.kmeans_files import TrainingFiles, checked
from retomaton_dist.stages.kmeans_recipe import Recipe
from retomaton_dist.storage import checkpoint
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.scratch import ScratchArray

UNIT_ROWS = 1 << 18
LEAST_UNIT_ROWS = 1 << 13
LEAST_RANGE_STATES = 1 << 12
# Of rows, and of ranges of states: enough to keep some workers busy where there is little to do.
LEAST_UNITS = 16
FEW_UNITS = 4
SUMS_MEMORY = 256 << 20


@dataclass(frozen=True)
class Trained:
    """The result: centroids, mapped, and the cells that they are looked up through."""

    centroids: Centroids
    cells: Cells | None


@dataclass(frozen=True)
class TrainingJob(PicklesFieldsOnly):
    """What is trained, how, and where its files lie. `draw` is None if all entries are rows."""

    reader: GuardedReader
    recipe: Recipe
    files: TrainingFiles
    draw: Draw | None
    blocking: Blocking

    @property
    def dimension(self) -> int:
        """Of the keys."""
        return self.reader.shape.dimension

    @property
    def unit_rows(self) -> int:
        """Rows of a unit: so many that their sums fit, were each of another state."""
        wanted = max(LEAST_UNIT_ROWS, -(-self.recipe.rows // LEAST_UNITS))
        return max(1, min(UNIT_ROWS, wanted, SUMS_MEMORY // (8 * self.dimension)))

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Of how many rows each iteration sees one."""
        return strides_for(self.recipe.rows, self.recipe.states, self.recipe.iterations)

    def span(self, stride: int) -> int:
        """Rows that a unit is for which sees one in `stride`: as much work, or some units."""
        return min(self.unit_rows * stride, max(self.unit_rows, -(-self.recipe.rows // FEW_UNITS)))

    @property
    def range_states(self) -> int:
        """States whose sums are reduced at once, with room for the means that come of them."""
        wanted = max(LEAST_RANGE_STATES, -(-self.recipe.states // LEAST_UNITS))
        return max(1, min(wanted, SUMS_MEMORY // (32 * self.dimension)))

    @property
    def copies_rows(self) -> bool:
        """Whether rows are trained on in another order than entries, or not all of them."""
        return self.recipe.two_level or self.draw is not None

    def entry_keys(self, first: int, last: int) -> Keys:
        """Keys of the rows among the entries first..last-1."""
        if self.draw is None:
            return self.reader.keys(first, last)
        return self.reader.rows(self.draw.among(first, last))

    def row_keys(self, first: int, last: int) -> Keys:
        """Keys of the rows first..last-1, in training order."""
        if not self.copies_rows:
            return self.reader.keys(first, last)
        return self._row_keys[first:last]

    def row_cells(self, first: int, last: int) -> NearCells:
        """The cells that the rows first..last-1 see."""
        return self._row_cells[first:last]

    @property
    def keys_array(self) -> ScratchArray:
        """Where the rows' keys are copied to."""
        return ScratchArray(self.files.work / "keys", "<f2", (self.recipe.rows, self.dimension))

    @property
    def cells_array(self) -> ScratchArray:
        """Where the cells that rows see are written to."""
        shape = self.recipe.rows, TwoLevel().probes
        return ScratchArray(self.files.work / "near_cells", "<i4", shape)

    def centroids_array(self, iteration: int) -> ScratchArray:
        """The centroids that so many iterations have moved."""
        return self.files.centroids(iteration, self.recipe.states, self.dimension)

    @cached_property
    def coarse(self) -> Cells:
        """The cells before their states are known: `offsets` are those of nothing."""
        found = open_trained(self.reader, self.files.of_cells)
        return Cells(found.centroids, np.zeros(1, np.int64), TwoLevel().probes, found.cells)

    @cached_property
    def row_offsets(self) -> Counts:
        """Cell c has the rows row_offsets[c] .. row_offsets[c + 1] - 1 in training order."""
        return offsets_in(self.files.layout)

    @cached_property
    def state_offsets(self) -> Counts:
        """Cell c has the states state_offsets[c] .. state_offsets[c + 1] - 1."""
        return offsets_in(self.files.cells)

    @cached_property
    def _row_keys(self) -> Keys:
        return self.keys_array.map()

    @cached_property
    def _row_cells(self) -> NearCells:
        return self.cells_array.map()


def training_files(folder: Path, config_hash: str) -> TrainingFiles:
    """The files of a training in a folder, bound to its config and to how units are cut."""
    cut = {
        "unit_rows": [LEAST_UNIT_ROWS, UNIT_ROWS],
        "entry_units": "as many rows",
        "range_states": LEAST_RANGE_STATES,
        "least_units": [FEW_UNITS, LEAST_UNITS],
        "strides": strides_for(1 << 62, 1, 64),
        "sums_memory": SUMS_MEMORY,
        "two_level": asdict(TwoLevel()),
    }
    return TrainingFiles(folder, content_hash({"config": config_hash, **cut}))


def open_trained(reader: GuardedReader, files: TrainingFiles) -> Trained:
    """Map what a finished training came to, compared with its digests."""
    state = files.load()
    assert state is not None, "asked for before the training"
    states = state.pieces[-1].last
    array = files.centroids(len(state.history), states, reader.shape.dimension)
    centroids = checked(array, state.pieces)
    if state.levels == 1:
        return Trained(centroids, None)
    above = open_trained(reader, files.of_cells)
    offsets = offsets_in(files.cells)
    return Trained(centroids, Cells(above.centroids, offsets, TwoLevel().probes, above.cells))


def save_offsets(path: Path, config_hash: str, counts: Counts) -> None:
    """Keep where the rows or states of each cell begin."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    checkpoint.save(path, config_hash, {"offsets": offsets}, {})


def offsets_in(path: Path) -> Counts:
    """What `save_offsets` kept."""
    return checkpoint.load_part(path, ("offsets",))[0]["offsets"]
