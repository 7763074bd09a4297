"""What a k-means leaves on disk while it goes on: scratch that any worker maps, in one folder.

    checkpoint.arrow                 the iterations that are done, and digests of the centroids
    training/HASH/cells/             a training of its own, whose states are the cells of this one
    training/HASH/near/              cells that each row of a unit sees, in entry order
    training/HASH/keys, near_cells   the rows in training order: copied and ordered, or as stored
    training/HASH/layout.arrow       which of these rows each cell has: the order is complete
    training/HASH/cells.arrow        which states each cell has
    training/HASH/iteration-0007/    centroids, and what units have found with them

A unit's file is its completion record: it is written last, durably and at once.
"""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Centroids
from retomaton_dist.clustering.lloyd import Iteration
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage import checkpoint
from retomaton_dist.storage.canonical import Json, content_hash
from retomaton_dist.storage.checkpoint import Arrays
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.scratch import ScratchArray

CHECKPOINT = "checkpoint.arrow"
TRAINING = "training"


class Kinded(Protocol):
    """A unit of training: its kind is where its record lies."""

    @property
    def kind(self) -> str:
        """Of the unit."""
        ...


@dataclass(frozen=True)
class CentroidPiece:
    """Centroids first..last-1 as they were written, and what is known of them."""

    first: int
    last: int
    digest: str


@dataclass(frozen=True)
class TrainingState:
    """Where a training is: all that it takes to go on after it was killed.

    `spread_unit` belongs to the present centroids; `levels` is how often a row is compared.
    """

    history: tuple[Iteration, ...]
    spread_unit: float
    pieces: tuple[CentroidPiece, ...]
    levels: int


@dataclass(frozen=True)
class TrainingFiles:
    """Where the files of one training lie, all bound to `config_hash`."""

    folder: Path
    config_hash: str

    @property
    def checkpoint(self) -> Path:
        """What is replaced after every iteration."""
        return self.folder / CHECKPOINT

    @property
    def scratch(self) -> Sequence[Path]:
        """What the caller removes when the training is not needed any more."""
        return self.folder / TRAINING, self.checkpoint

    @property
    def work(self) -> Path:
        """Everything else: of this config alone, so that nobody else's files get mixed in."""
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

    @property
    def near(self) -> Path:
        """Where units leave the cells that their rows see."""
        return self.work / "near"

    def unit(self, kind: str, number: int) -> Path:
        """The record of a unit."""
        return self.work / kind / f"unit-{number:05d}.arrow"

    def has(self, number: int, payload: Kinded) -> bool:
        """Whether a unit is done."""
        return self.unit(payload.kind, number).exists()

    def keep(self, number: int, payload: Kinded, done: Done) -> None:
        """Write the unit's record: what it leaves to others."""
        path = self.unit(payload.kind, number)
        checkpoint.save(path, self.config_hash, done.arrays, done.facts)

    def facts(self, units: Sequence[Kinded]) -> list[Json]:
        """What the records of a round say."""
        return [self.left(unit.kind, number)[1] for number, unit in enumerate(units)]

    def left(self, kind: str, number: int, *names: str) -> tuple[Arrays, Json]:
        """Some arrays that a unit has left, mapped, and its facts."""
        return checkpoint.load_part(self.unit(kind, number), names)

    def places(self, units: int, cells: int) -> ScratchArray:
        """Where the rows of each unit go, per cell."""
        return ScratchArray(self.near / "places", "<i8", (units, cells))

    def centroids(self, iteration: int, states: int, dimension: int) -> ScratchArray:
        """The centroids that an iteration begins with."""
        path = self.work / iteration_name(iteration) / "centroids"
        return ScratchArray(path, "<f4", (states, dimension))

    def save(self, state: TrainingState) -> None:
        """Replace the checkpoint."""
        checkpoint.save(self.checkpoint, self.config_hash, {}, asdict(state))

    def load(self) -> TrainingState | None:
        """What was reached before; None if there is nothing."""
        found = checkpoint.load(self.checkpoint, self.config_hash)
        if found is None:
            return None
        _, facts = found
        history = tuple(Iteration(**item) for item in facts["history"])
        pieces = tuple(CentroidPiece(**item) for item in facts["pieces"])
        return TrainingState(history, facts["spread_unit"], pieces, facts["levels"])

    def forget_before(self, iteration: int) -> None:
        """Remove what earlier iterations left."""
        for path in sorted(self.work.glob("iteration-*")):
            if path.name < iteration_name(iteration):
                shutil.rmtree(path, ignore_errors=True)


def iteration_name(number: int) -> str:
    """The folder of an iteration, beside those of the other kinds of units."""
    return f"iteration-{number:06d}"


def digest_of_rows(rows: NDArray[np.float32]) -> str:
    """Return the SHA-256 of centroids."""
    return hashlib.sha256(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data).hexdigest()


def checked(array: ScratchArray, pieces: Sequence[CentroidPiece]) -> Centroids:
    """Map centroids that an earlier process wrote, having compared them with their digests."""
    centroids = array.map()
    for piece in pieces:
        if digest_of_rows(centroids[piece.first : piece.last]) != piece.digest:
            folder = array.path.parents[3]
            raise DamagedStore(
                f"{array.path}: its contents were altered; delete {folder / CHECKPOINT} and "
                f"{folder / TRAINING} to begin the stage anew"
            )
    return centroids
