"""`Searcher`: the k nearest entries of any queries, whoever does the work.

The contract, for every implementation:

* `search(queries, k)` returns distances [n, k] float32 (squared L2) and entries [n, k] int64.
* Rows are in the order (distance, entry), so that ties have one order, too.
* Every entry is a real one, and no row holds one twice. Where the cells that an approximate index
  looks into hold fewer than k entries, it looks into more of them for that query, if need be into
  all: k results are always there because k may not exceed the number of entries.
* The same sorted distances as from one unsharded index with the same codebook. Of entries that are
  as near as the k-th the lower ones are taken, so that the k nearest are the first k of more.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.codec.codec import check_queries
from retomaton_dist.errors import BadInput
from retomaton_dist.search import parameters
from retomaton_dist.search.layout import IndexFiles, Layout
from retomaton_dist.search.merge import Distances, Found, cut_short, merge
from retomaton_dist.search.parameters import NONE, Parameters
from retomaton_dist.search.shard import Queries, Shard

ROWS_AT_ONCE = 4096
WIDENING = 4
# Square roots of its part of k that a shard is asked for besides, at first; the share of queries
# that may be asked twice before it is more.
MORE = 4.0
OFTEN = 1 / 16
# Queries whose ties with the k-th neighbour are remembered.
KNOWN_TIES = 64


class Searcher(ABC):
    """Searches an index; see the module for the contract. Threads may share one."""

    def __init__(self, layout: Layout, chosen: Parameters) -> None:
        self.layout = layout
        self.parameters = {**layout.parameters, **chosen}
        self._more = MORE
        self._known_ties: dict[tuple[int, int, bytes], Found] = {}

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        return (
            f"<{type(self).__name__}: index {self.layout.name!r}, {self.layout.factory}, "
            f"{self.layout.entries:,} entries{', ' if chosen else ''}{chosen}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def search_shards(self, queries: Queries, k: int, widen: int) -> Sequence[Found]:
        """What each shard finds; gaps are (inf, -1)."""

    @abstractmethod
    def close(self) -> None:
        """Free what the searcher holds."""

    def search(self, queries: ArrayLike, k: int) -> Found:
        """The k nearest entries of each query: (distances, entries)."""
        return self.search_more(queries, k, k)

    def search_more(self, queries: ArrayLike, k: int, most: int) -> Found:
        """The k nearest as `search` has them, and what else was found on the way, `most` in all.

        So it looks into no further cells than `search` does; gaps beyond k are (inf, -1).
        """
        checked = check_queries(queries, self.layout.dimension)
        check_k(k, self.layout.entries)
        check_k(most, self.layout.entries)
        distances = np.empty((len(checked), most), np.float32)
        entries = np.empty((len(checked), most), np.int64)
        for start in range(0, len(checked), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            distances[block], entries[block] = self._full(checked[block], k, most)
        return distances, entries

    def candidates(self, queries: Queries, k: int, widen: int = 1) -> Found:
        """What the index finds with its parameters as they are; gaps are (inf, -1).

        FAISS takes any of the entries that are as near as the k-th. Where there are such, all of
        them are looked at, and the lower ones taken.
        """
        width = min(k + 1, self.layout.entries)
        near, which = self._nearest(queries, width, widen)
        distances, entries = near[:, :k], which[:, :k]
        tied = np.flatnonzero(_ties_go_on(near, k))
        if not len(tied):
            return distances, entries
        distances, entries = distances.copy(), entries.copy()
        if not self._measures_alone:
            near, which = self._untied(queries, k, width, widen)
            distances[tied], entries[tied] = near[tied], which[tied]
            return distances, entries
        for row in tied:
            # All documents begin alike: what was found for such a query is asked for again.
            key = k, widen, queries[row].tobytes()
            if key not in self._known_ties:
                found = self._untied(queries[row : row + 1], k, width, widen)
                if len(self._known_ties) >= KNOWN_TIES:
                    self._known_ties.clear()
                self._known_ties[key] = found
            near, which = self._known_ties[key]
            distances[row], entries[row] = near[0], which[0]
        return distances, entries

    def _untied(self, queries: Queries, k: int, width: int, widen: int) -> Found:
        """The k nearest of so many that all which are as near as the k-th are among them."""
        while True:
            width = min(width * WIDENING, self.layout.entries)
            near, which = self._nearest(queries, width, widen)
            if width == self.layout.entries or not _ties_go_on(near, k).any():
                return near[:, :k].copy(), which[:, :k].copy()

    def _nearest(self, queries: Queries, k: int, widen: int) -> Found:
        """What all shards find.

        A shard is asked for its part of k and some more. Queries that it may know nearer entries
        of are asked again for all of k, so that what is found does not depend on it.
        """
        part = self._part(k)
        parts = self.search_shards(queries, part, widen)
        found = merge(parts, k)
        if part == k or not len(queries):
            return found
        short = cut_short(parts, found, part)
        if short.mean() > OFTEN:
            self._more *= 1.5
        if short.any():
            again = merge(self.search_shards(queries[short], k, widen), k)
            found[0][short], found[1][short] = again
        return found

    @property
    def _measures_alone(self) -> bool:
        """Whether a query's distances are the same in whatever company.

        Those of cells are. Where all keys are multiplied at once, or turned before, they round
        differently.
        """
        return self.layout.factory.startswith("IVF")

    def _part(self, k: int) -> int:
        """How many neighbours each shard is asked for: more, once that was often too few."""
        if not self._measures_alone:
            return k
        each = k / len(self.layout.spans)
        return min(k, math.ceil(each + self._more * math.sqrt(each)))

    def _full(self, queries: Queries, k: int, most: int) -> Found:
        distances, entries = self.candidates(queries, most)
        widen, widest = 1, parameters.widest(self.layout.cells, self.parameters)
        while (short := entries[:, k - 1] < 0).any():
            if widen >= widest:
                raise BadInput(
                    f"index {self.layout.name!r} ({self.layout.factory}) finds only "
                    f"{(entries >= 0).sum(axis=1).min():,} of {k:,} neighbours of a query; raise "
                    f"its search parameters, or build it with an IVF or Flat --factory"
                )
            widen = min(widen * WIDENING, widest)
            # A view may be read-only: results can lie in shared memory.
            distances, entries = distances.copy(), entries.copy()
            distances[short], entries[short] = self.candidates(queries[short], most, widen)
        return distances, entries


class LocalSearcher(Searcher):
    """Searches all shards in this process; their files are mapped and shared between processes."""

    def __init__(self, opened: IndexFiles, chosen: Parameters = NONE) -> None:
        super().__init__(opened.layout, chosen)
        self._shards = [
            Shard(opened.shard(number), opened.layout, number, self.parameters)
            for number in range(len(opened.layout.spans))
        ]
        self._lock = threading.Lock()

    def configure(self, chosen: Parameters) -> None:
        """Search with these parameters from now on; those not named stay as they are."""
        with self._lock:
            for shard in self._shards:
                shard.configure(chosen)
            self.parameters |= chosen
            self._known_ties.clear()

    def search_shards(self, queries: Queries, k: int, widen: int) -> Sequence[Found]:
        """One shard after the other: FAISS divides the queries among its threads."""
        with self._lock:
            return [shard.search(queries, k, widen) for shard in self._shards]

    def close(self) -> None:
        """Unmap the shards."""
        self._shards.clear()


def _ties_go_on(near: Distances, k: int) -> NDArray[np.bool_]:
    """Of which queries entries may be left out that are as near as the k-th."""
    if near.shape[1] == k:
        return np.zeros(len(near), np.bool_)
    ties: NDArray[np.bool_] = np.isfinite(near[:, -1]) & (near[:, k - 1] == near[:, -1])
    return ties


def open_searcher(opened: IndexFiles, chosen: str | None = None) -> LocalSearcher:
    """Search in this process; `chosen` are parameters such as "nprobe=64"."""
    return LocalSearcher(opened, parameters.parse(chosen or ""))


def check_k(k: int, entries: int) -> None:
    """Refuse to look for fewer than one neighbour, or for more than there are."""
    if not 1 <= k <= entries:
        raise BadInput(f"k = {k}: the index has {entries:,} entries; choose 1..{entries}")
