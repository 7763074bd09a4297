"""Walks that follow hypotheses: texts that may go on, be copied, or be dropped.

A step of a hypothesis is what a position of a text is to `evaluation/walking.py`: the same lanes,
restarts and draws, so that a finished hypothesis has the walk that its text would have.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.automaton import Automaton, Neighbours
from retomaton_dist.automaton.lanes import Distributions, Lanes
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.automaton.summing import observe
from retomaton_dist.codec.codec import Queries
from retomaton_dist.evaluation.walking import first_entries
from retomaton_dist.methods.mixing import Mixing, temperatures_for
from retomaton_dist.scores.reading import Reading
from retomaton_dist.scores.seen import SeenRows
from retomaton_dist.scores.uniform import uniform
from retomaton_dist.scores.walks import Walked, WalkSpec
from retomaton_dist.search.searcher import Searcher
from retomaton_dist.settings import WalkSettings

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Find = Callable[[Rows], NDArray[np.int64]]
"""The entries nearest to the queries of some of a step's rows, [rows, neighbours]."""

# Whatever the prompt, its text is the only document: so it is scored alike alone or among others.
DOCUMENT = 0


@dataclass(frozen=True)
class Guide:
    """What hypotheses are walked with; without `searcher` or `suffixes` nothing is looked for."""

    automaton: Automaton
    spec: WalkSpec
    settings: WalkSettings
    mixing: Mixing
    searcher: Searcher | None
    suffixes: Suffixes | None
    threads: int = 1

    @cached_property
    def neighbours(self) -> int:
        """How many entries a search finds."""
        return self.spec.neighbours(self.settings, self.automaton.entries)

    @cached_property
    def temperatures(self) -> tuple[float, ...]:
        """What log-sums are taken for."""
        return temperatures_for(self.mixing)

    def search(self, queries: NDArray[np.float16]) -> NDArray[np.int64]:
        """The entries nearest to each query."""
        assert self.searcher is not None, "walks that search are given an index"
        least = min(self.settings.k, self.neighbours)
        return self.searcher.search_more(queries, least, self.neighbours)[1]

    def lanes(self, count: int) -> Lanes:
        """So many lanes, at the start of their documents."""
        # What forgets has no states: its candidates are what was found, whatever the preset.
        restart = "neighbours" if self.spec.forgetful else self.settings.restart
        chosen = replace(self.settings, k=self.neighbours, restart=restart)
        lanes = Lanes(self.automaton, chosen, np.full(count, self.spec.tau), self.threads)
        lanes.reset(np.full(count, DOCUMENT))
        return lanes


class Hypotheses:
    """Texts that are walked side by side: lane i is that of row i, lanes beyond them are free."""

    def __init__(self, guide: Guide, rows: int) -> None:
        self.guide = guide
        self.lanes = guide.lanes(rows)
        longest = guide.suffixes.longest if guide.suffixes else 1
        # Tokens before the position of every row, the latest first.
        self._recent = np.full((rows, longest), -1, np.int32)
        self.positions = np.full(rows, -1)
        # At that position: whether the row has candidates, and how its walk came to them.
        self._walked, self.searched = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
        self.matched = np.zeros(rows, np.int32)
        self._carried, self._since = np.zeros(rows, np.int64), np.full(rows, -1)

    def skip(self, row: int, tokens: NDArray[np.int32], position: int, since: int) -> None:
        """Go behind these tokens but the last without walking, to `position`: for who forgets.

        `since` are the steps since the last restart there.
        """
        self.positions[row], self._since[row] = position, since
        # The last token comes with the next step.
        latest = tokens[-2::-1][: self._recent.shape[1]]
        self._recent[row, : len(latest)] = latest

    def select(self, rows: Rows) -> None:
        """Go on with these rows, in this order; one may be there several times."""
        if not np.array_equal(rows, targets := np.arange(len(rows))):
            self.lanes.copy(rows, targets)
        self._recent, self.positions = self._recent[rows], self.positions[rows]
        self._walked, self.searched = self._walked[rows], self.searched[rows]
        self.matched = self.matched[rows]
        self._carried, self._since = self._carried[rows], self._since[rows]

    def step(
        self,
        rows: Rows,
        tokens: NDArray[np.int32],
        queries: NDArray[np.float16],
        find: Find,
        gate: Mask | None = None,
    ) -> None:
        """Take rows to their next positions, behind these tokens (-1: none).

        A walk that forgets stays away from rows whose `gate` is closed.
        """
        recent = self._recent
        recent[rows, 1:] = recent[rows, :-1]
        recent[rows, 0] = tokens
        self.positions[rows] += 1
        self.searched[rows], self.matched[rows] = False, 0
        self._walked[rows] = True if gate is None else gate
        places = np.arange(len(rows)) if gate is None else np.flatnonzero(gate)
        if len(places):
            self._advance(rows[places], places, queries, find)
        restarted = self.searched[rows] | (self.matched[rows] > 0)
        self._carried[rows] = self._since[rows] + 1
        self._since[rows] = np.where(restarted, 0, self._carried[rows])

    def seen(self, rows: Rows, reading: Reading) -> SeenRows:
        """What mixing reads of the positions of rows, besides what the walk came to."""
        numbers = np.arange(len(rows))
        return SeenRows(self.guide.temperatures, reading, numbers, self._carried[rows])

    def walked(self, rows: Rows) -> Walked:
        """What the walk came to at the positions of rows; there is no token, so no target."""
        arrays, temperatures = self.lanes.arrays, np.array(self.guide.temperatures)
        nearest, pointed = np.empty(len(rows), np.float32), np.empty(len(rows), np.int32)
        observe(arrays, rows, nearest, pointed)
        near = np.where(np.isfinite(nearest), nearest, 0).astype(np.float64)
        nothing = np.full(len(rows), -1, np.int32)
        sums = self.lanes.log_sums(nothing, temperatures, rows)
        sums += (near[:, None] / temperatures)[:, :, None, None]
        favoured = np.full((*sums.shape[:2], 2), -np.inf, np.float32)
        found = Walked(
            sums.astype(np.float32),
            favoured,
            self.searched[rows],
            self.matched[rows],
            arrays.found[rows].astype(np.int32),
            arrays.counts[rows].astype(np.int32),
            pointed,
            nearest,
        )
        return found if self._walked[rows].all() else self._without_closed(rows, found)

    def distributions(self, rows: Rows) -> Distributions:
        """p_auto of every version at the positions of rows."""
        found = self.lanes.distributions(self.guide.mixing.versions, rows)
        found.counts[~self._walked[rows]] = 0
        return found

    def _advance(
        self, chosen: Rows, places: Rows, queries: NDArray[np.float16], find: Find
    ) -> None:
        """Follow the last tokens of rows, which are those of these places of the step."""
        lanes, spec = self.lanes, self.guide.spec
        if spec.forgetful:
            lanes.reset(np.full(len(chosen), DOCUMENT), chosen)
        thin = lanes.advance(self._recent[chosen, 0], chosen)
        entries, lengths = self._look_up(chosen, thin)
        searching = thin & (lengths < spec.sigma)
        if spec.share < 1:
            drawn = uniform(np.full(len(chosen), DOCUMENT), self.positions[chosen])
            searching &= drawn < spec.share
        ready = self.guide.automaton.ready(queries[places])
        if searching.any():
            found = self._measured(ready, searching, find(places[searching]))
        else:
            found = None
        suffixed, numbers = thin & ~searching, np.arange(len(chosen))
        if not suffixed.all():
            lanes.join(ready, found, numbers[~suffixed], chosen[~suffixed])
        if suffixed.any():
            found = self._measured(ready, suffixed, entries[suffixed])
            lanes.join(ready, found, numbers[suffixed], chosen[suffixed])
        self.searched[chosen] = searching
        self.matched[chosen] = np.where(suffixed, lengths, 0)

    def _look_up(self, chosen: Rows, thin: Mask) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """What follows the longest suffixes of rows that run thin, and how long those are.

        At its start all that precedes is known: a text matches documents of the corpus in full.
        """
        suffixes, k = self.guide.suffixes, self.guide.settings.k
        if suffixes is None or not self.guide.spec.looks_up or not thin.any():
            return np.full((len(chosen), 1), -1), np.zeros(len(chosen), np.int32)
        recent = self._recent[chosen]
        matches = suffixes.look_up(np.where(thin[:, None], recent, -1), k)
        starting = thin & (recent[:, 0] < 0)
        if starting.any() and len(first := first_entries(suffixes, k)):
            matches.entries[starting, : len(first)] = first
            matches.lengths[starting] = suffixes.longest
        return matches.entries, matches.lengths

    def _measured(self, ready: Queries, which: Mask, entries: NDArray[np.int64]) -> Neighbours:
        """What was found for these rows beside nothing for the others."""
        spread = np.full((len(which), entries.shape[1]), -1)
        spread[which] = entries
        return self.guide.automaton.neighbours(ready, spread)

    def _without_closed(self, rows: Rows, found: Walked) -> Walked:
        """The same without candidates where the gate was closed."""
        made = Walked.empty((len(rows),), found.sums.shape[1])
        opened = self._walked[rows]
        for name, column in vars(made).items():
            column[opened] = getattr(found, name)[opened]
        return made
