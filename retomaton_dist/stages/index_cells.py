"""The cells of an index: centroids from our own k-means, over a sample that all workers share."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.draw import drawn
from retomaton_dist.clustering.lloyd import LloydProgress, Stop, stopped
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.two_level import wants_two_levels
from retomaton_dist.runtime.progress import showing
from retomaton_dist.runtime.session import Session
from retomaton_dist.stages.kmeans import Recipe, Saved, Trained, train
from retomaton_dist.stages.kmeans_shares import Sample, TeamShares
from storage.guarded import GuardedReader

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
    def _saved(self) -> Saved:
        return Saved(self.folder, self.config_hash)

    def run(self, reader: GuardedReader, session: Session) -> None:
        """Train, or go on from the last checkpoint, with all workers of the session."""
        saved, stop = self._saved, Stop(ITERATIONS)
        reached = saved.load()
        if isinstance(reached, Trained) and stopped(reached.state, stop):
            return
        before = len(reached.state.history) if isinstance(reached, Trained) else 0
        width, rows = reader.shape.dimension, self.sample
        two_level = wants_two_levels(rows, self.cells, width, ITERATIONS)
        recipe = Recipe(self.cells, ITERATIONS, rows, self.seed, two_level)
        entries = np.sort(drawn(reader.shape.entries, rows, self.seed))
        blocking = Blocking()
        mode = session.settings.progress
        with (
            showing(mode, "index cells", ITERATIONS, "iterations", before) as progress,
            TeamShares(Sample(reader, entries), blocking, session) as shares,
        ):

            def show(now: LloydProgress) -> None:
                progress.advance(len(now.history) - progress.done)

            train(shares, recipe, saved, blocking, show)

    def centroids(self) -> NDArray[np.float32]:
        """What was found. A cell for which no key was left has no centroid, and is no cell."""
        found = self._saved.trained().state.centroids
        return np.ascontiguousarray(found[np.isfinite(found).all(axis=1)])
