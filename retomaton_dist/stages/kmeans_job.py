"""One training of a k-means: what it leaves on disk while it goes on, and its arrays, mapped.

    checkpoint.arrow                 the iterations that are done, and digests of the centroids
    training/HASH/cells/             a training of its own, whose states are the cells of this one
    training/HASH/seen_cells         cells that each row sees, in the order of entries
    training/HASH/keys, near_cells   the rows in training order: copied and ordered, or as stored
    training/HASH/layout.arrow       which of these rows each cell has: the order is complete
    training/HASH/cells.arrow        which states each cell has
    training/HASH/iteration-0007/    centroids, and what units have found with them

A unit's file is its completion record: it is written last, durably and at once.
"""

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from retomaton_dist.clustering.arrays import Centroids, Counts, Keys, blocks_of
from retomaton_dist.clustering.assign import Cells, NearCells
from retomaton_dist.clustering.draw import Draw
from retomaton_dist.clustering.lloyd import Iteration
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import PROBES, ROWS_PER_STATE, SPLIT_ITERATIONS, Recipe
from retomaton_dist.clustering.samples import strides_for
from retomaton_dist.clustering.sums import norms_of, spread_unit
from retomaton_dist.errors import DamagedStore
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage import checkpoint
from retomaton_dist.storage.canonical import Json, content_hash
from retomaton_dist.storage.checkpoint import Arrays
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
CHECKPOINT = "checkpoint.arrow"
TRAINING = "training"


@dataclass(frozen=True)
class CentroidPiece:
    """Centroids first..last-1 as they were written.

    `count` of them are not NaN, and their squared lengths add up to `squares`.
    """

    first: int
    last: int
    digest: str
    count: int
    squares: float

    @classmethod
    def of(cls, first: int, centroids: Centroids) -> "CentroidPiece":
        """What is to be known of centroids that begin with `first`."""
        last = first + len(centroids)
        return cls(first, last, _digest(centroids), *norms_of(centroids))


def _digest(centroids: Centroids) -> str:
    flat = np.ascontiguousarray(centroids).reshape(-1)
    return hashlib.sha256(flat.view(np.uint8).data).hexdigest()


@dataclass(frozen=True)
class TrainingState:
    """Where a training is: all that it takes to go on after it was killed.

    `pieces` are those of the present centroids; `levels` is how often a row is compared.
    """

    history: tuple[Iteration, ...]
    pieces: tuple[CentroidPiece, ...]
    levels: int

    @property
    def spread_unit(self) -> float:
        """The step in which distances to the present centroids are counted."""
        count = sum(piece.count for piece in self.pieces)
        return spread_unit(count, sum(piece.squares for piece in self.pieces))


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
    def do(self, job: "TrainingJob", number: int, /) -> Done:
        """Do the unit durably; it has this number in its round."""


@dataclass(frozen=True)
class TrainingFiles:
    """Where the files of one training lie, all bound to `config_hash`."""

    folder: Path
    config_hash: str

    @property
    def scratch(self) -> Sequence[Path]:
        """What the caller removes when the training is not needed any more."""
        return self.folder / TRAINING, self.folder / CHECKPOINT

    @property
    def work(self) -> Path:
        """All but the checkpoint: of this config alone, so that no other's files get mixed in."""
        return self.folder / TRAINING / self.config_hash[:16]

    @property
    def of_cells(self) -> "TrainingFiles":
        """The files of the training that finds the cells."""
        return TrainingFiles(self.work / "cells", content_hash({"cells_of": self.config_hash}))

    @property
    def layout(self) -> Path:
        """Which rows each cell has; there when all rows are in training order."""
        return self.work / "layout.arrow"

    @property
    def cells(self) -> Path:
        """Which states each cell has."""
        return self.work / "cells.arrow"

    def unit(self, kind: str, number: int) -> Path:
        """The record of a unit."""
        return self.work / kind / f"unit-{number:05d}.arrow"

    def has(self, number: int, payload: TrainingUnit) -> bool:
        """Whether a unit is done."""
        return self.unit(payload.kind, number).exists()

    def keep(self, number: int, payload: TrainingUnit, done: Done) -> None:
        """Write the unit's record: what it leaves to others."""
        path = self.unit(payload.kind, number)
        checkpoint.save(path, self.config_hash, done.arrays, done.facts)

    def facts(self, units: Sequence[TrainingUnit]) -> list[Json]:
        """What the records of a round say."""
        return [self.left(unit.kind, number)[1] for number, unit in enumerate(units)]

    def left(self, kind: str, number: int, *names: str) -> tuple[Arrays, Json]:
        """Some arrays that a unit has left, mapped, and its facts."""
        return checkpoint.load_part(self.unit(kind, number), names)

    def save_offsets(self, path: Path, counts: Counts) -> None:
        """Keep where the rows or states of each cell begin."""
        offsets = np.concatenate([[0], np.cumsum(counts)])
        checkpoint.save(path, self.config_hash, {"offsets": offsets}, {})

    def seen_cells(self, rows: int) -> ScratchArray:
        """The cells that each row sees, in the order of entries; kept if all entries are rows."""
        return ScratchArray(self.work / "seen_cells", "<i4", (rows, PROBES))

    def centroids(self, iteration: int, states: int, dimension: int) -> ScratchArray:
        """The centroids that an iteration begins with."""
        path = self.work / iteration_name(iteration) / "centroids"
        return ScratchArray(path, "<f4", (states, dimension))

    def save(self, state: TrainingState) -> None:
        """Replace the checkpoint."""
        checkpoint.save(self.folder / CHECKPOINT, self.config_hash, {}, asdict(state))

    def load(self) -> TrainingState | None:
        """What was reached before; None if there is nothing."""
        found = checkpoint.load(self.folder / CHECKPOINT, self.config_hash)
        if found is None:
            return None
        _, facts = found
        history = tuple(Iteration(**item) for item in facts["history"])
        pieces = tuple(CentroidPiece(**item) for item in facts["pieces"])
        return TrainingState(history, pieces, facts["levels"])

    def forget_before(self, iteration: int) -> None:
        """Remove what earlier iterations left."""
        for path in sorted(self.work.glob("iteration-*")):
            if path.name < iteration_name(iteration):
                shutil.rmtree(path, ignore_errors=True)


def iteration_name(number: int) -> str:
    """The folder of an iteration, beside those of the other kinds of units."""
    return f"iteration-{number:06d}"


def training_files(folder: Path, config_hash: str) -> TrainingFiles:
    """The files of a training in a folder, bound to its config and to how units are cut."""
    cut = {
        "unit_rows": [LEAST_UNIT_ROWS, UNIT_ROWS],
        "format": 2,
        "range_states": LEAST_RANGE_STATES,
        "least_units": [FEW_UNITS, LEAST_UNITS],
        "strides": strides_for(1 << 62, 1, 64),
        "sums_memory": SUMS_MEMORY,
        "cells": [PROBES, ROWS_PER_STATE, SPLIT_ITERATIONS],
    }
    return TrainingFiles(folder, content_hash({"config": config_hash, **cut}))


@dataclass(frozen=True)
class Trained:
    """The result: centroids, mapped, and the cells that they are looked up through."""

    centroids: Centroids
    cells: Cells | None


def open_trained(reader: GuardedReader, files: TrainingFiles) -> Trained:
    """Map what a finished training came to, compared with its digests."""
    state = files.load()
    assert state is not None, "asked for before the training"
    centroids = checked_centroids(files, state, reader.shape.dimension)
    if state.levels == 1:
        return Trained(centroids, None)
    above = open_trained(reader, files.of_cells)
    return Trained(centroids, Cells(above.centroids, offsets_in(files.cells), PROBES, above.cells))


def checked_centroids(files: TrainingFiles, state: TrainingState, dimension: int) -> Centroids:
    """Map centroids that an earlier process wrote, having compared them with their digests."""
    array = files.centroids(len(state.history), state.pieces[-1].last, dimension)
    centroids = array.map()
    for piece in state.pieces:
        if _digest(centroids[piece.first : piece.last]) != piece.digest:
            raise DamagedStore(
                f"{array.path}: its contents were altered; delete {files.folder / CHECKPOINT} and "
                f"{files.folder / TRAINING} to begin the stage anew"
            )
    return centroids


def offsets_in(path: Path) -> Counts:
    """What `save_offsets` kept."""
    return checkpoint.load_part(path, ("offsets",))[0]["offsets"]


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

    @property
    def entry_ranges(self) -> list[slice]:
        """The entries in units of whole chunks, each with a unit's rows among them."""
        shape = self.reader.shape
        wanted = self.unit_rows * shape.entries // self.recipe.rows
        size = max(1, wanted // shape.chunk_entries) * shape.chunk_entries
        return list(blocks_of(shape.entries, size))

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Of how many rows each iteration sees one."""
        return strides_for(self.recipe.rows, self.recipe.states, self.recipe.iterations)

    def row_units(self, iteration: int) -> list[slice]:
        """The rows in units that are as much work, though fewer are seen, or in some units."""
        few = max(self.unit_rows, -(-self.recipe.rows // FEW_UNITS))
        size = min(self.unit_rows * self.strides[iteration], few)
        return list(blocks_of(self.recipe.rows, size))

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

    def places_array(self, units: int) -> ScratchArray:
        """Where the rows of each unit of entries go, per cell."""
        shape = units, len(self.coarse.centres)
        return ScratchArray(self.files.work / "near" / "places", "<i8", shape)

    @property
    def keys_array(self) -> ScratchArray:
        """Where the rows' keys are copied to."""
        return ScratchArray(self.files.work / "keys", "<f2", (self.recipe.rows, self.dimension))

    @property
    def cells_array(self) -> ScratchArray:
        """Where the cells that rows see are written to, in training order."""
        return ScratchArray(self.files.work / "near_cells", "<i4", (self.recipe.rows, PROBES))

    def centroids_array(self, iteration: int) -> ScratchArray:
        """The centroids that so many iterations have moved."""
        return self.files.centroids(iteration, self.recipe.states, self.dimension)

    @cached_property
    def coarse(self) -> Cells:
        """The cells before their states are known: `offsets` are those of nothing."""
        found = open_trained(self.reader, self.files.of_cells)
        return Cells(found.centroids, np.zeros(1, np.int64), PROBES, found.cells)

    @cached_property
    def row_offsets(self) -> Counts:
        """Cell c has the rows row_offsets[c] .. row_offsets[c + 1] - 1 in training order."""
        return offsets_in(self.files.layout)

    @cached_property
    def state_offsets(self) -> Counts:
        """Cell c has the states state_offsets[c] .. state_offsets[c + 1] - 1."""
        return offsets_in(self.files.cells)

    @cached_property
    def row_cells(self) -> NearCells:
        """The cells that the rows see, in training order."""
        return self.cells_array.map()

    @cached_property
    def _row_keys(self) -> Keys:
        return self.keys_array.map()
