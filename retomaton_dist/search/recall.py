"""Recall@k: how much of what exact search finds the index finds, too."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.search.merge import Found
from retomaton_dist.search.probe import Probe
from retomaton_dist.search.searcher import Searcher
from retomaton_dist.storage.datastore import Keys

# Exact distances come from float32 sums that cancel: nearer than this they count as equal.
TIED = 1e-5


@dataclass(frozen=True)
class Measure:
    """Measures recall against `exact` neighbours; `keys` are those of the whole datastore."""

    probe: Probe
    exact: Found
    keys: Keys

    def recall(self, searcher: Searcher) -> float:
        """Mean share of the k exact neighbours that the index finds with its present parameters.

        An entry tied with the k-th is as good as the k-th.
        """
        found = self._without_excluded(searcher)
        hits = [self._hits(row, found[row]) for row in range(len(found))]
        wanted = [int((self.exact[1][row, : self.probe.k] >= 0).sum()) for row in range(len(found))]
        return float(np.sum(hits) / max(1, np.sum(wanted)))

    def _without_excluded(self, searcher: Searcher) -> list[NDArray[np.int64]]:
        """Search for more than k and drop what is excluded, until k are left or there is no more.

        Documents differ in size, so only the queries that need it search for more.
        """
        kept: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(self.probe.entries)
        left = np.arange(len(kept))
        width = min(2 * self.probe.k, searcher.layout.entries)
        while len(left):
            _, entries = searcher.candidates(self.probe.queries[left], width)
            for row, line in zip(left, entries, strict=True):
                low, high = self.probe.excluded[row]
                kept[row] = line[(line >= 0) & ~((line >= low) & (line < high))][: self.probe.k]
            fewer = np.array([len(kept[row]) < self.probe.k for row in left], bool)
            left = left[fewer & (entries[:, -1] >= 0)]
            if width == searcher.layout.entries:
                break
            width = min(2 * width, searcher.layout.entries)
        return kept

    def _hits(self, row: int, found: NDArray[np.int64]) -> int:
        k = self.probe.k
        distances, entries = self.exact[0][row], self.exact[1][row]
        sure = np.isin(found, entries[:k])
        limit = distances[k - 1]
        if distances[k] > limit + TIED * (1 + limit):
            return int(sure.sum())
        others = self.keys[np.sort(found[~sure])].astype(np.float64)
        away = ((others - self.probe.queries[row].astype(np.float64)) ** 2).sum(axis=1)
        tied = int((away <= limit + TIED * (1 + limit)).sum())
        return min(int(sure.sum()) + tied, int((entries[:k] >= 0).sum()))
