"""The cells of an index: centroids from our own k-means, over a sample that all workers share."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import recipe_of
from retomaton_dist.runtime.session import Session
from retomaton_dist.stages.kmeans_job import TrainingFiles, open_trained, training_files
from retomaton_dist.stages.kmeans_training import train_shown
from retomaton_dist.storage.guarded import GuardedReader

# As many as FAISS takes for its own cells.
ITERATIONS = 10


@dataclass(frozen=True)
class CellTraining:
    """How cells are found, and where the checkpoints of that lie."""

    folder: Path
    config_hash: str
    cells: int
    sample: int
    seed: int

    @property
    def _files(self) -> TrainingFiles:
        return training_files(self.folder, self.config_hash)

    def run(self, reader: GuardedReader, session: Session) -> None:
        """Train, or go on from the last checkpoint, with all workers of the session."""
        width = reader.shape.dimension
        recipe = recipe_of(self.cells, ITERATIONS, self.sample, self.seed, width)
        train_shown("index cells", session, reader, recipe, self._files, Blocking())

    def centroids(self, reader: GuardedReader) -> NDArray[np.float32]:
        """What was found. A cell for which no key was left has no centroid, and is no cell."""
        found = open_trained(reader, self._files).centroids
        return np.ascontiguousarray(found[np.isfinite(found).all(axis=1)])
