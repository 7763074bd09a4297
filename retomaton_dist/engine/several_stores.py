"""Several stores at once: their walks side by side, their n-gram models beside each other.

The main store is number 0; further ones are counted from 1 on. Those that are walked come first.
All have one tokenizer, and those that are walked keys of one model: so queries serve all walks.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.lanes import Distributions, Lanes
from retomaton_dist.engine.mixture import Candidates
from retomaton_dist.engine.retrieval import OpenRetrieval, Retrieval
from retomaton_dist.engine.text_models import TextModels
from retomaton_dist.engine.walker import Find, Mask, Rows, Tokens, Walker
from retomaton_dist.engine.walks import WalkResult, WalkSpec


@dataclass(frozen=True)
class FurtherStore:
    """A store beside the main one: what of it is used, and how it is walked, if it is."""

    retrieval: Retrieval
    spec: WalkSpec | None


class StoreWalk(NamedTuple):
    """A store that is walked, opened, and by which rule."""

    retrieval: OpenRetrieval
    spec: WalkSpec

    @property
    def neighbours(self) -> int:
        """How many entries its searches find."""
        return self.retrieval.neighbours([self.spec])


def store_walks(
    main: Retrieval, spec: WalkSpec | None, further: Sequence[FurtherStore]
) -> tuple[StoreWalk, ...]:
    """The walks of all stores that are walked, by number."""
    stores = [(main, spec), *((one.retrieval, one.spec) for one in further)]
    return tuple(StoreWalk(each.opened, rule) for each, rule in stores if rule is not None)


def search_all(walks: Sequence[StoreWalk], queries: NDArray[np.float16]) -> NDArray[np.int64]:
    """What each walk's search finds, side by side: [queries, neighbours of all]."""
    found = [
        walk.retrieval.search(queries, walk.neighbours) for walk in walks if walk.spec.searches
    ]
    return np.concatenate(found, axis=1)


def text_models(
    main: Retrieval, further: Sequence[FurtherStore], vocabulary: int
) -> TextModels | None:
    """The models of text alone that are asked, if any."""
    if main.ngrams is None and not main.cache:
        return None
    others = [one.retrieval.ngram_model for one in further]
    known = tuple(model for model in others if model is not None)
    return TextModels(main.ngram_model, main.cache, vocabulary, known)


class JoinedWalker:
    """Walks rows of text through several stores at once, by one rule each; see `Walker`.

    Results are those of the main store, with those of the others beside them.
    """

    def __init__(self, walks: Sequence[StoreWalk], rows: int) -> None:
        self._walks = walks
        self._walkers = [Walker(walk.retrieval, [walk.spec], rows) for walk in walks]
        widths = [walk.neighbours if walk.spec.searches else 0 for walk in walks]
        ends = np.cumsum([0, *widths])
        self._columns = [slice(*pair) for pair in itertools.pairwise(ends)]

    def begin(self, rows: Rows, documents: Rows) -> None:
        """Put rows at the start of documents, whose numbers decide what is drawn at random."""
        for walker in self._walkers:
            walker.begin(rows, documents)

    def skip(self, row: int, tokens: Tokens, position: int, since: int) -> None:
        """Take a row behind these tokens but the last, without walking there."""
        for walker in self._walkers:
            walker.skip(row, tokens, position, since)

    def copy(self, sources: Rows, targets: Rows) -> None:
        """Have rows go on from where others are."""
        for walker in self._walkers:
            walker.copy(sources, targets)

    def step(
        self, rows: Rows, tokens: Tokens, queries: NDArray[np.float16], find: Find, gate: Mask
    ) -> None:
        """Take rows to their next positions; `find` gives what `search_all` does."""
        for walker, columns in zip(self._walkers, self._columns, strict=True):
            part = _columns_of(find, columns) if len(self._walkers) > 1 else find
            walker.step(rows, tokens, queries, part, gate)

    def results(
        self,
        temperatures: Sequence[float],
        targets: Tokens | None = None,
        favourites: Tokens | None = None,
    ) -> dict[WalkSpec, WalkResult]:
        """What came of the last step, by the main store's rule."""
        main, *others = (
            walker.results(temperatures, targets, favourites)[walk.spec]
            for walker, walk in zip(self._walkers, self._walks, strict=True)
        )
        joined = replace(main, further=tuple(others)) if others else main
        return {self._walks[0].spec: joined}

    def distributions(self, experts: Sequence[Candidates]) -> tuple[Distributions, ...]:
        """p_auto of every expert's version, by store, a row for each row of the last step."""
        return tuple(
            walker.distributions(
                walk.spec, [(e.temperature, e.pointer_weight) for e in experts if e.store == store]
            )
            for store, (walker, walk) in enumerate(zip(self._walkers, self._walks, strict=True))
        )

    def lanes(self) -> Lanes:
        """The lanes of the main store's walk, lane i that of row i."""
        return self._walkers[0].lanes(self._walks[0].spec)[0]

    def capped(self) -> dict[str, list[int]]:
        """How often the caps of the main store's walk were hit."""
        return self._walkers[0].capped()

    def close(self) -> None:
        """End the lanes' threads."""
        for walker in self._walkers:
            walker.close()


def _columns_of(find: Find, columns: slice) -> Find:
    return lambda places: find(places)[:, columns]


def of_all_stores(walked: WalkResult) -> tuple[Mask, NDArray[np.int32], NDArray[np.int32]]:
    """Where any store was searched, the longest suffix, and the states of all walks together."""
    searched, matched, states = walked.searched, walked.matched, walked.states
    for one in walked.further:
        searched, matched = searched | one.searched, np.maximum(matched, one.matched)
        states = states + one.states
    return searched, matched, states
