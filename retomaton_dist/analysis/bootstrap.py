"""Intervals: what would have come out with other documents of the same kind (bootstrap)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Draws of documents, level of intervals, and the most places that are drawn from.
DRAWS, LEVEL, MOST_GROUPS = 1000, 0.95, 10_000
# With fewer documents than this, draws of them say little about others: there are no intervals.
LEAST_DOCUMENTS = 20


@dataclass(frozen=True)
class Resampling:
    """How often each document is in each draw: the same draws for all methods, so that they pair.

    A text of fewer than LEAST_DOCUMENTS documents has no draws, and so no intervals.
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
        draws = np.zeros((DRAWS if len(sizes) >= LEAST_DOCUMENTS else 0, number), np.float32)
        for draw in draws:
            draw[:] = np.bincount(random.integers(0, number, number), minlength=number)
        return cls(counts, draws)

    def totals(self, rows: Floats) -> Floats:
        """Sums of rows by document."""
        ends = np.cumsum(self.counts).astype(np.int64)
        return np.add.reduceat(rows, np.concatenate([[0], ends[:-1]]))

    def interval(self, log_p: Floats) -> tuple[float, float] | None:
        """Interval of exp(-mean log p)."""
        return between(self._means(self.totals(log_p)))

    def ratio(self, log_p: Floats, other: Floats) -> tuple[float, float] | None:
        """Interval of the ratio of two perplexities over the same draws."""
        return self.ratio_of_totals(self.totals(log_p), self.totals(other))

    def ratio_of_totals(self, totals: Floats, other: Floats) -> tuple[float, float] | None:
        """The same from sums by document."""
        return between(self._means(totals) - self._means(other))

    def ratio_among(self, losses: Floats, rows: NDArray[np.bool_]) -> tuple[float, float] | None:
        """Interval of exp(mean of the losses of some rows); draws without such rows do not count.

        None also where too few documents have such rows.
        """
        counts = self.totals(rows.astype(np.float64))
        if np.count_nonzero(counts) < LEAST_DOCUMENTS:
            return None
        drawn = self.draws @ counts
        sums = self.draws @ self.totals(np.where(rows, losses, 0.0))
        return between(sums[drawn > 0] / drawn[drawn > 0])

    def _means(self, totals: Floats) -> Floats:
        means: Floats = -(self.draws @ totals) / (self.draws @ self.counts)
        return means


def why_no_intervals(documents: int) -> str | None:
    """The sentence that stands where intervals would; None if there are enough documents."""
    if documents >= LEAST_DOCUMENTS:
        return None
    named = "1 document" if documents == 1 else f"{documents} documents"
    return f"The text has {named}: intervals are given from {LEAST_DOCUMENTS} documents on."


def between(logs: Floats) -> tuple[float, float] | None:
    """The interval that most of some draws lie in, of their exponentials; None without draws."""
    if not len(logs):
        return None
    low, high = np.exp(np.quantile(logs, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    return float(low), float(high)
