"""Searching for the places of a span: where one must be searched, some behind it may be, too.

What is read ahead - a prompt, or drafted tokens - has its queries at hand, and one search for
several is cheaper than as many searches. But walks that seldom search would not need most of it,
and drafted tokens may fall before a walk comes to them.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.walker import Find, Rows

Search = Callable[[NDArray[np.float16]], NDArray[np.int64]]

# Places that are searched at once, at most.
AHEAD = 8
# Searching ahead is worth it if so much of it is needed: several queries at once take less than one
# by one, but not much less.
WORTH = 0.7
# How many places what is believed at first counts for.
BELIEF = 4


class SearchNeed:
    """How many of the places that could be searched ahead were needed, `believed` at first."""

    def __init__(self, believed: float) -> None:
        self._could, self._needed = float(BELIEF), BELIEF * believed

    def note(self, could: int, needed: int) -> None:
        """So many places could have been searched ahead, and so many of them were needed."""
        self._could += could
        self._needed += needed

    @property
    def ahead(self) -> int:
        """How many places to search at once: several if most of them will be needed."""
        return AHEAD if self._needed >= WORTH * self._could else 1


class SpanSearch:
    """Finds what is near to the places of a span, some places ahead in one call."""

    def __init__(
        self, search: Search, queries: NDArray[np.float16], counts: Rows, need: SearchNeed
    ) -> None:
        self._search_for, self._queries = search, queries
        self._counts, self._need = counts, need
        self._found: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._asked: dict[int, list[int]] = defaultdict(list)
        self.searches = 0

    def at(self, rows: Rows, place: int) -> Find:
        """What finds the neighbours of some of these rows at a place."""

        def find(chosen: Rows) -> NDArray[np.int64]:
            wanted = [(int(row), place) for row in rows[chosen]]
            missing = [row for row, _ in wanted if (row, place) not in self._found]
            if missing:
                self._search(missing, place)
            for row, _ in wanted:
                self._asked[row].append(place)
            return np.stack([self._found[item] for item in wanted])

        return find

    def asked_at(self, place: int) -> int:
        """Of how many rows a place had to be searched."""
        return sum(place in places for places in self._asked.values())

    def close(self) -> None:
        """The walks are through: take note of what searching ahead was, or would have been, for."""
        for row, places in self._asked.items():
            behind = int(self._counts[row]) - 1 - places[0]
            self._need.note(min(behind, AHEAD - 1), min(len(places), AHEAD) - 1)

    def _search(self, rows: Sequence[int], place: int) -> None:
        places = [
            (row, ahead)
            for row in rows
            for ahead in range(place, min(place + self._need.ahead, int(self._counts[row])))
        ]
        numbers, at = np.array(places).T
        found = self._search_for(self._queries[numbers, at])
        self._found.update(zip(places, found, strict=True))
        self.searches += len(places)
