"""Searching for the places of a span: where one must be searched, some behind it may be, too.

What is read ahead - a prompt, or drafted tokens - has its queries at hand, and one search for
several is cheaper than as many searches. But walks that seldom search would not need most of it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.generation.hypotheses import Find, Guide, Rows

# Places that are searched at once, at most.
AHEAD = 8


class SearchNeed:
    """How often walks had to search so far."""

    def __init__(self) -> None:
        self._passed = self._searched = 0

    def note(self, passed: int, searched: int) -> None:
        """Walks passed so many positions, and had to search at some of them."""
        self._passed += passed
        self._searched += searched

    @property
    def ahead(self) -> int:
        """How many places to search at once: several if most of them will be needed."""
        return AHEAD if 2 * self._searched >= self._passed else 1


class SpanSearch:
    """Finds what is near to the places of a span, some places ahead in one call."""

    def __init__(
        self, guide: Guide, queries: NDArray[np.float16], counts: Rows, need: SearchNeed
    ) -> None:
        self._guide, self._queries, self._counts, self._need = guide, queries, counts, need
        self._found: dict[tuple[int, int], NDArray[np.int64]] = {}
        self.searches = 0

    def at(self, rows: Rows, place: int) -> Find:
        """What finds the neighbours of some of these rows at a place."""

        def find(chosen: Rows) -> NDArray[np.int64]:
            wanted = [(int(row), place) for row in rows[chosen]]
            missing = [row for row, _ in wanted if (row, place) not in self._found]
            if missing:
                self._search(missing, place)
            return np.stack([self._found[item] for item in wanted])

        return find

    def _search(self, rows: Sequence[int], place: int) -> None:
        places = [
            (row, ahead)
            for row in rows
            for ahead in range(place, min(place + self._need.ahead, int(self._counts[row])))
        ]
        numbers, at = np.array(places).T
        found = self._guide.search(self._queries[numbers, at])
        self._found.update(zip(places, found, strict=True))
        self.searches += len(places)
