"""Walking rows of text side by side: the blocks of an evaluation and the texts that grow.

A row is a text at a position. It is walked by one rule (`WalkSpec`) or by several at once; each
rule of a row has a lane. Rows can begin anew, be copied and be dropped at any step:

    walker.begin(rows, documents)
    walker.step(rows, tokens, queries, find, gate)   # go behind these tokens
    walker.results(temperatures, targets)            # what came of that step, by rule

What all rows of a step must search or look up is found by one call each, and queries are made
ready once for all rules.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import CANDIDATES_CAPPED, EMPTY, STATES_CAPPED, find_slots
from retomaton_dist.automaton.automaton import Automaton, Neighbours
from retomaton_dist.automaton.lanes import Distributions, Lanes
from retomaton_dist.automaton.sums import TARGET, observe
from retomaton_dist.codec.codec import Queries
from retomaton_dist.engine.retrieval import OpenRetrieval
from retomaton_dist.engine.uniform import uniform
from retomaton_dist.engine.walks import WalkResult, WalkSpec

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Tokens = NDArray[np.int32]
Find = Callable[[Rows], NDArray[np.int64]]
"""The entries nearest to the queries of some places of a step, [places, neighbours]."""


class Walker:
    """So many rows, each of them walked by all rules, or by those that `assign` gives it."""

    def __init__(self, retrieval: OpenRetrieval, specs: Sequence[WalkSpec], rows: int) -> None:
        self._retrieval = retrieval
        self._neighbours = retrieval.neighbours(specs)
        longest = retrieval.suffixes.longest if retrieval.suffixes else 1
        # Of every row: its document, its position, and the tokens before that, the latest first.
        self.documents, self.positions = np.zeros(rows, np.int64), np.full(rows, -1)
        self._recent = np.full((rows, longest), -1, np.int32)
        self._groups = [LaneGroup(retrieval, group, rows) for group in _grouped(specs)]
        self._group_of = {spec: group for group in self._groups for spec in group.specs}
        self._draws = any(spec.share < 1 for spec in specs)

    def begin(self, rows: Rows, documents: Rows) -> None:
        """Put rows at the start of documents, whose numbers decide what is drawn at random."""
        self.documents[rows], self.positions[rows], self._recent[rows] = documents, -1, -1
        for group in self._groups:
            group.begin(rows, documents)

    def assign(self, rows: Rows, specs: Sequence[WalkSpec]) -> None:
        """Have rows walked by these rules alone."""
        for group in self._groups:
            group.assigned[:, rows] = [[spec in specs] for spec in group.specs]

    def skip(self, row: int, tokens: Tokens, position: int, since: int) -> None:
        """Take a row behind these tokens but the last, to `position`, without walking there.

        Only for rules that keep no state. `since` is how many steps ago the last restart was.
        """
        self.positions[row] = position
        # The last token comes with the next step.
        latest = tokens[-2::-1][: self._recent.shape[1]]
        self._recent[row, : len(latest)] = latest
        for group in self._groups:
            group.since[:, row] = since

    def copy(self, sources: Rows, targets: Rows) -> None:
        """Have rows go on from where others are."""
        for column in (self.documents, self.positions, self._recent):
            column[targets] = column[sources]
        for group in self._groups:
            group.copy(sources, targets)

    def step(
        self, rows: Rows, tokens: Tokens, queries: NDArray[np.float16], find: Find, gate: Mask
    ) -> None:
        """Take rows to their next positions, behind these tokens (-1: none).

        Rules that keep no state have no candidates where the `gate` is closed.
        """
        self._recent[rows, 1:] = self._recent[rows, :-1]
        self._recent[rows, 0] = tokens
        self.positions[rows] += 1
        looking = np.zeros(len(rows), np.bool_)
        for group in self._groups:
            looking |= group.advance(rows, tokens, gate)
        matches = self._retrieval.look_up(self._recent[rows], looking)
        draws = np.zeros(len(rows))
        if self._draws:
            draws = uniform(self.documents[rows], self.positions[rows])
        searching, suffixed = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        for group in self._groups:
            by_search, by_suffix = group.restart(matches.lengths, draws)
            searching |= by_search
            suffixed |= by_suffix
        ready = self._groups[0].automaton.ready(queries)
        places, k = np.flatnonzero(searching), self._retrieval.settings.k
        near = RestartEntries(ready, searching, self._neighbours, lambda: find(places))
        after = RestartEntries(ready, suffixed, k, lambda: matches.entries[suffixed])
        for group in self._groups:
            group.join(ready, near, after)

    def results(
        self,
        temperatures: Sequence[float],
        targets: Tokens | None = None,
        favourites: Tokens | None = None,
    ) -> dict[WalkSpec, WalkResult]:
        """What came of the last step, by rule, a row for each of its rows.

        Log-sums are those of `targets`, and of the LM's `favourites`; where they are not given
        there is no token yet, and only the sums over all tokens count.
        """
        made: dict[WalkSpec, WalkResult] = {}
        for group in self._groups:
            found = group.results(np.asarray(temperatures, np.float64), targets, favourites)
            made |= {spec: found.of_walk(place) for place, spec in enumerate(group.specs)}
        return made

    def distributions(
        self, spec: WalkSpec, versions: Sequence[tuple[float, float]]
    ) -> Distributions:
        """p_auto of every version, a row for each row of the last step, by one rule."""
        return self._group_of[spec].distributions(spec, versions)

    def lanes(self, spec: WalkSpec) -> tuple[Lanes, int]:
        """The lanes that a rule is walked by, and the lane of row 0; other rows follow."""
        group = self._group_of[spec]
        return group.lanes, group.specs.index(spec) * len(self.positions)

    def capped(self) -> dict[str, list[int]]:
        """By rule: how often the caps on states and on candidates were hit, and none was found."""
        return {label: row for group in self._groups for label, row in group.capped().items()}

    def close(self) -> None:
        """End the lanes' threads."""
        for group in self._groups:
            group.lanes.close()


class LaneGroup:
    """Rules that can share lanes, of one automaton: lane `w * rows + r` is rule w of row r."""

    def __init__(self, retrieval: OpenRetrieval, specs: Sequence[WalkSpec], rows: int) -> None:
        self.specs, self._rows = list(specs), rows
        self.automaton: Automaton = retrieval.automata[specs[0].automaton]
        self._forgetful = specs[0].stateless
        self._neighbours = specs[0].neighbours(retrieval.settings, self.automaton.entries)
        # kNN-LM keeps no state, so the preset's `restart` does not apply.
        restart = "neighbours" if self._forgetful else retrieval.settings.restart
        settings = replace(retrieval.settings, k=self._neighbours, restart=restart)
        taus = np.repeat([spec.tau for spec in specs], rows)
        self.lanes = Lanes(self.automaton, settings, taus, retrieval.threads)
        self.lanes.reset(np.zeros(len(specs) * rows, np.int64))
        self.assigned = np.ones((len(specs), rows), np.bool_)
        self.since = np.full((len(specs), rows), -1)
        self._sigmas = np.array([spec.sigma for spec in specs])
        self._shares = np.array([spec.share for spec in specs])
        self._looks_up = np.array([spec.looks_up for spec in specs])
        # Of the last step: its rows and, by rule, which of them were walked; then, of every lane
        # that was, its rule, the place of its row, and what it did.
        self._step, self._active = np.empty(0, np.int64), np.empty((len(specs), 0), np.bool_)
        self._walks = self._places = self._chosen = np.empty(0, np.int64)
        self._thin = self._searched = self._suffixed = np.empty(0, np.bool_)
        self._matched = np.empty(0, np.int32)

    def begin(self, rows: Rows, documents: Rows) -> None:
        """Put rows at the start of documents, walked by all rules."""
        self.lanes.reset(np.tile(documents, len(self.specs)), self._lanes_of(rows))
        self.since[:, rows], self.assigned[:, rows] = -1, True

    def copy(self, sources: Rows, targets: Rows) -> None:
        """Have rows go on from where others are."""
        self.lanes.copy(self._lanes_of(sources), self._lanes_of(targets))
        for table in (self.assigned, self.since):
            table[:, targets] = table[:, sources]

    def advance(self, rows: Rows, tokens: Tokens, gate: Mask) -> Mask:
        """Follow the tokens; say of which rows the suffixes must be looked up."""
        active = self.assigned[:, rows]
        if self._forgetful:
            active = active & gate
        self._step, self._active = rows, active
        self._walks, self._places = np.nonzero(active)
        self._chosen = self._walks * self._rows + rows[self._places]
        if self._forgetful:
            self.lanes.reset(self.lanes.arrays.documents[self._chosen], self._chosen)
        self._thin = self.lanes.advance(tokens[self._places], self._chosen)
        return self._of_rows(self._thin & self._looks_up[self._walks])

    def restart(self, lengths: NDArray[np.int32], draws: NDArray[np.float64]) -> tuple[Mask, Mask]:
        """Say which rows must be searched, and which restart by their longest suffixes.

        `lengths` are those of the suffixes, by row; a search is for draws below the share.
        """
        matched, walks = lengths[self._places], self._walks
        self._searched = self._thin & (matched < self._sigmas[walks])
        self._searched &= draws[self._places] < self._shares[walks]
        self._suffixed = self._thin & ~self._searched
        self._matched = np.where(self._suffixed, matched, np.int32(0))
        restarted = self._searched | (self._matched > 0)
        self.since[:, self._step] += 1
        self.since[walks[restarted], self._step[self._places[restarted]]] = 0
        return self._of_rows(self._searched), self._of_rows(self._suffixed)

    def join(self, queries: Queries, near: "RestartEntries", after: "RestartEntries") -> None:
        """Give the lanes that advanced their candidates."""
        for found, lanes in ((near, ~self._suffixed), (after, self._suffixed)):
            if lanes.any():
                neighbours = found.neighbours(self.automaton, self._neighbours)
                self.lanes.join(queries, neighbours, self._places[lanes], self._chosen[lanes])

    def results(
        self,
        temperatures: NDArray[np.float64],
        targets: Tokens | None,
        favourites: Tokens | None,
    ) -> WalkResult:
        """What came of the last step: [rules, rows]."""
        made = WalkResult.empty((len(self.specs), len(self._step)), tuple(temperatures.tolist()))
        chosen, arrays, at = self._chosen, self.lanes.arrays, (self._walks, self._places)
        nearest, pointed = np.empty(len(chosen), np.float32), np.empty(len(chosen), np.int32)
        observe(arrays, chosen, nearest, pointed)
        near = np.where(np.isfinite(nearest), nearest, 0).astype(np.float64)
        scale = (near[:, None] / temperatures)[:, :, None, None]
        wanted = np.full(len(self._step), -1, np.int32) if targets is None else targets
        made.sums[at] = self.lanes.log_sums(wanted[self._places], temperatures, chosen) + scale
        if favourites is not None:
            others = favourites[self._places]
            sums = self.lanes.log_sums(others, temperatures, chosen, of_all=False)
            made.favoured[at] = (sums + scale)[:, :, TARGET]
        made.searched[at], made.matched[at] = self._searched, self._matched
        made.states[at], made.candidates[at] = arrays.found[chosen], arrays.counts[chosen]
        made.pointed[at], made.nearest[at] = pointed, nearest
        made.since[:] = self.since[:, self._step]
        return made

    def distributions(
        self, spec: WalkSpec, versions: Sequence[tuple[float, float]]
    ) -> Distributions:
        """p_auto of every version, a row for each row of the last step, by one rule."""
        walk = self.specs.index(spec)
        found = self.lanes.distributions(versions, walk * self._rows + self._step)
        found.counts[~self._active[walk]] = 0
        return found

    def capped(self) -> dict[str, list[int]]:
        """By rule: how often the caps on states and on candidates were hit, and none was found."""
        counted = self.lanes.arrays.counters.reshape(len(self.specs), self._rows, -1)
        chosen = counted.sum(axis=1)[:, [STATES_CAPPED, CANDIDATES_CAPPED, EMPTY]].tolist()
        return {spec.label: row for spec, row in zip(self.specs, chosen, strict=True)}

    def _lanes_of(self, rows: Rows) -> Rows:
        lanes: Rows = (np.arange(len(self.specs))[:, None] * self._rows + rows).ravel()
        return lanes

    def _of_rows(self, which: Mask) -> Mask:
        """The rows of the step some of whose lanes are meant."""
        rows = np.zeros(len(self._step), np.bool_)
        rows[self._places[which]] = True
        return rows


class RestartEntries:
    """Entries that restarts of a step begin with, nearest first, found and measured once.

    All automata of a walker share the codec, hence the distances. Rows that do not restart so have
    none.
    """

    def __init__(
        self, queries: Queries, which: Mask, width: int, find: Callable[[], NDArray[np.int64]]
    ) -> None:
        self._queries = queries
        self._entries: NDArray[np.int64] | None = None
        if which.any():
            self._entries = np.full((len(which), width), -1)
            self._entries[which] = find()
        self._measured: NDArray[np.float32] | None = None
        self._known: dict[tuple[int, int], Neighbours] = {}

    def neighbours(self, automaton: Automaton, k: int) -> Neighbours | None:
        """The first k entries in an automaton's slots; None where nothing was asked for."""
        if self._entries is None:
            return None
        key = id(automaton), min(k, self._entries.shape[1])
        if key not in self._known:
            self._known[key] = self._in_slots(automaton, key[1])
        return self._known[key]

    def _in_slots(self, automaton: Automaton, k: int) -> Neighbours:
        assert self._entries is not None
        if self._measured is None:
            known = automaton.neighbours(self._queries, self._entries)
            self._measured = known.distances
            if k == self._entries.shape[1]:
                return known
        entries = np.ascontiguousarray(self._entries[:, :k])
        slots, values = np.empty(entries.shape, np.int64), np.empty(entries.shape, np.int32)
        find_slots(automaton.columns, entries, slots, values)
        return Neighbours(slots, values, np.ascontiguousarray(self._measured[:, :k]))


def _grouped(specs: Sequence[WalkSpec]) -> list[list[WalkSpec]]:
    """Rules that can share lanes: of one automaton, stateless or not, of as many neighbours."""
    kinds: dict[tuple[Any, ...], list[WalkSpec]] = {}
    for spec in specs:
        kinds.setdefault((spec.automaton, spec.stateless, spec.wide), []).append(spec)
    return list(kinds.values())
