"""Places for walks: texts come and go, each keeps its place in one walker until it ends."""

import numpy as np

from retomaton_dist.engine.walker import Rows, Walker
from retomaton_dist.generation.generator import DOCUMENT, Generator
from retomaton_dist.generation.span_search import SearchNeed


class WalkSlots:
    """As many places for walks as there may be texts at once, and what searching for them took.

    Without a walk there is no walker, and places are numbers only.
    """

    def __init__(self, generator: Generator, places: int) -> None:
        self.walker: Walker | None = None
        if generator.retrieval is not None and generator.point.spec is not None:
            self.walker = Walker(generator.retrieval, [generator.point.spec], places)
        self._free = list(reversed(range(places)))
        self.searches = 0
        # Drafted tokens may fall; prompts never do.
        self.need_of_spans, self.need_of_prompts = SearchNeed(0.5), SearchNeed(1.0)

    def begin(self, count: int) -> Rows:
        """Places for texts that begin."""
        slots = np.array([self._free.pop() for _ in range(count)], np.int64)
        if self.walker is not None:
            self.walker.begin(slots, np.full(count, DOCUMENT, np.int64))
        return slots

    def release(self, slots: Rows) -> None:
        """These texts have ended."""
        self._free.extend(slots.tolist())

    def chosen(self, slots: Rows, rows: Rows) -> Rows:
        """The places of these texts, in this order; walks of those named again are copied."""
        made, copied = slots[rows], np.zeros(len(rows), np.bool_)
        for place in np.setdiff1d(np.arange(len(rows)), np.unique(rows, return_index=True)[1]):
            made[place], copied[place] = self._free.pop(), True
        if self.walker is not None and copied.any():
            self.walker.copy(slots[rows][copied], made[copied])
        return made

    def close(self) -> None:
        """End the walker's threads."""
        if self.walker is not None:
            self.walker.close()
