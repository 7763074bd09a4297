"""Confidence intervals of perplexities, by drawing documents anew."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS, LEVEL, MOST_GROUPS = 1000, 0.95, 10_000


@dataclass(frozen=True)
class Resampling:
    """How often each document is in each draw: the same draws for all methods, so that they pair.

    A text of one document has no intervals.
    """

    counts: Floats
    draws: NDArray[np.float32]

    @classmethod
    def of(cls, documents: NDArray[np.int32], seed: int = 0) -> "Resampling":
        """Draw documents with repetition; `documents` is the document of every row, in order."""
        _, sizes = np.unique(documents, return_counts=True)
        # Neighbours share a place where there are very many, so that draws stay small.
        groups = np.arange(len(sizes)) * min(len(sizes), MOST_GROUPS) // len(sizes)
        counts = np.bincount(groups, sizes).astype(np.float64)
        number, random = len(counts), np.random.default_rng(seed)
        draws = np.zeros((DRAWS if number > 1 else 0, number), np.float32)
        for draw in draws:
            draw[:] = np.bincount(random.integers(0, number, number), minlength=number)
        return cls(counts, draws)

    def totals(self, rows: Floats) -> Floats:
        """Sums of rows by document."""
        ends = np.cumsum(self.counts).astype(np.int64)
        return np.add.reduceat(rows, np.concatenate([[0], ends[:-1]]))

    def interval(self, log_p: Floats) -> tuple[float, float] | None:
        """Interval of exp(-mean log p)."""
        return self._between(self._means(log_p))

    def ratio(self, log_p: Floats, other: Floats) -> tuple[float, float] | None:
        """Interval of the ratio of two perplexities over the same draws."""
        return self._between(self._means(log_p) - self._means(other))

    def _means(self, log_p: Floats) -> Floats:
        found: Floats = -(self.draws @ self.totals(log_p)) / (self.draws @ self.counts)
        return found

    def _between(self, logs: Floats) -> tuple[float, float] | None:
        if not len(logs):
            return None
        low, high = np.exp(np.quantile(logs, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
        return float(low), float(high)
