"""What walks did: searches saved, and how often each cap was hit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton import arrays


@dataclass(frozen=True)
class Counters:
    """Sums over lanes; `saved` counts only positions that a later search followed."""

    positions: int
    searches: int
    saved: int
    states_capped: int
    candidates_capped: int
    empty: int

    @classmethod
    def of(cls, rows: NDArray[np.int64]) -> "Counters":
        """Add up the counters of lanes, one per row."""
        total = rows.sum(axis=0)
        return cls(
            positions=int(total[arrays.POSITIONS]),
            searches=int(total[arrays.SEARCHES]),
            saved=int(total[arrays.SAVED]),
            states_capped=int(total[arrays.STATES_CAPPED]),
            candidates_capped=int(total[arrays.CANDIDATES_CAPPED]),
            empty=int(total[arrays.EMPTY]),
        )

    @property
    def foss(self) -> float:
        """Fraction of saved searches, over all positions."""
        return 1 - self.searches / self.positions if self.positions else 0.0

    @property
    def reference_foss(self) -> float:
        """FoSS as the authors' code counts it: without what follows the last search."""
        counted = self.saved + self.searches
        return self.saved / counted if counted else 0.0
