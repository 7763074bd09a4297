"""Walking many documents at once, with all walks that an evaluation asks for.

Documents advance in lock-step: one step is one position of each. What all lanes of a step must
search or look up is found by one call each, and the queries are made ready once for all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import CANDIDATES_CAPPED, EMPTY, STATES_CAPPED
from retomaton_dist.automaton.automaton import Automaton, Neighbours, find_slots
from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.automaton.suffixes import Matches, Suffixes
from retomaton_dist.automaton.summing import TARGET, observe
from retomaton_dist.codec.codec import Queries
from retomaton_dist.scores.reading import Reading
from retomaton_dist.scores.uniform import uniform
from retomaton_dist.scores.walks import Walked, WalkSpec
from retomaton_dist.settings import WalkSettings

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Find = Callable[[Rows], NDArray[np.int64]]
"""The entries nearest to the queries of some rows, [rows, most_neighbours]."""


class Track:
    """The lanes of one automaton over a block of documents: a lane per walk and document."""

    def __init__(
        self,
        automaton: Automaton,
        specs: Sequence[WalkSpec],
        settings: WalkSettings,
        documents: Rows,
        threads: int,
    ) -> None:
        self.automaton, self.specs = automaton, specs
        self._forgetful = specs[0].forgetful
        self._neighbours = specs[0].neighbours(settings, automaton.entries)
        self._documents = documents
        taus = np.repeat([spec.tau for spec in specs], len(documents))
        # What forgets has no states: its candidates are what was found, whatever the preset.
        restart = "neighbours" if self._forgetful else settings.restart
        chosen = replace(settings, k=self._neighbours, restart=restart)
        self.lanes = Lanes(automaton, chosen, taus, threads)
        self.lanes.reset(np.tile(documents, len(specs)))
        self._sigmas = np.array([[spec.sigma] for spec in specs])
        self._shares = np.array([[spec.share] for spec in specs])
        self._looking = np.array([spec.looks_up for spec in specs])
        self._places, self._chosen = np.empty(0, np.int64), np.empty(0, np.int64)
        # Of every walk and place: whether it runs thin, then what it restarts by.
        self._thin = self._searching = self._suffixed = np.empty((len(specs), 0), np.bool_)
        self._matched = np.empty((len(specs), 0), np.int32)

    def advance(self, active: int, tokens: NDArray[np.int32], gate: Mask) -> Mask:
        """Follow the tokens of the first `active` documents; say whose suffixes must be looked up.

        A forgetful walk stays away from documents whose `gate` is closed.
        """
        self._places = np.flatnonzero(gate) if self._forgetful else np.arange(active)
        starts = np.arange(len(self.specs))[:, None] * len(self._documents)
        self._chosen = (starts + self._places).ravel()
        if self._forgetful:
            self.lanes.reset(self._by_lane(self._documents[self._places]), self._chosen)
        thin = self.lanes.advance(self._by_lane(tokens[self._places]), self._chosen)
        self._thin = thin.reshape(len(starts), -1)
        return self._in_some_walk(active, self._thin[self._looking])

    def restart(self, lengths: NDArray[np.int32], draws: NDArray[np.float64]) -> tuple[Mask, Mask]:
        """Say which documents must be searched, and which restart by their longest suffixes.

        `lengths` are those of the suffixes, by document; a search is for draws below the share.
        """
        short = lengths[self._places] < self._sigmas
        self._searching = self._thin & short & (draws[self._places] < self._shares)
        self._suffixed = self._thin & ~self._searching
        self._matched = np.where(self._suffixed, lengths[self._places], np.int32(0))
        active = len(lengths)
        searching = self._in_some_walk(active, self._searching)
        return searching, self._in_some_walk(active, self._suffixed)

    def join(
        self, queries: Queries, searched: "RestartEntries", suffixed: "RestartEntries"
    ) -> None:
        """Give the lanes that advanced their candidates."""
        rows, by_suffix = self._by_lane(self._places), self._suffixed.ravel()
        for found, lanes in ((searched, ~by_suffix), (suffixed, by_suffix)):
            if lanes.any():
                neighbours = found.neighbours(self.automaton, self._neighbours)
                self.lanes.join(queries, neighbours, rows[lanes], self._chosen[lanes])

    def record(
        self,
        rows: Rows,
        targets: NDArray[np.int32],
        favourites: NDArray[np.int32],
        temperatures: NDArray[np.float64],
        found: Walked,
    ) -> None:
        """Write down what came of the step, into `found`: walks and rows."""
        shape = len(self.specs), len(self._places)
        chosen, arrays = self._chosen, self.lanes.arrays
        nearest, pointed = np.empty(len(chosen), np.float32), np.empty(len(chosen), np.int32)
        observe(arrays, chosen, nearest, pointed)
        near = np.where(np.isfinite(nearest), nearest, 0).astype(np.float64)
        scale = (near[:, None] / temperatures)[:, :, None, None]
        sums, others = (
            self.lanes.log_sums(
                self._by_lane(wanted[self._places]), temperatures, chosen, of_all=wanted is targets
            )
            + scale
            for wanted in (targets, favourites)
        )
        places = rows[self._places]
        found.sums[:, places] = sums.reshape(*shape, *sums.shape[1:])
        found.favoured[:, places] = others[:, :, TARGET].reshape(*shape, len(temperatures), 2)
        found.searched[:, places] = self._searching
        found.matched[:, places] = self._matched
        found.states[:, places] = arrays.found[chosen].reshape(shape)
        found.candidates[:, places] = arrays.counts[chosen].reshape(shape)
        found.pointed[:, places] = pointed.reshape(shape)
        found.nearest[:, places] = nearest.reshape(shape)

    def caps(self) -> dict[str, list[int]]:
        """By walk: how often the caps on states and on candidates were hit, and none was found."""
        counted = self.lanes.arrays.counters.reshape(len(self.specs), len(self._documents), -1)
        chosen = counted.sum(axis=1)[:, [STATES_CAPPED, CANDIDATES_CAPPED, EMPTY]].tolist()
        return {spec.label: row for spec, row in zip(self.specs, chosen, strict=True)}

    def close(self) -> None:
        """End the lanes' threads."""
        self.lanes.close()

    def _by_lane(self, column: NDArray[Any]) -> NDArray[Any]:
        return np.tile(column, len(self.specs))

    def _in_some_walk(self, active: int, which: Mask) -> Mask:
        rows = np.zeros(active, np.bool_)
        rows[self._places] = which.any(axis=0)
        return rows


class RestartEntries:
    """Entries that restarts of a step begin with, nearest first, measured once for all automata.

    All automata share the codec, hence the distances.
    """

    def __init__(self, queries: Queries, entries: NDArray[np.int64] | None) -> None:
        self._queries, self._entries = queries, entries
        self._known: Neighbours | None = None

    def neighbours(self, automaton: Automaton, k: int) -> Neighbours | None:
        """The first k entries in an automaton's slots; None where nothing was asked for."""
        if self._entries is None:
            return None
        if self._known is None:
            self._known = automaton.neighbours(self._queries, self._entries)
        distances = np.ascontiguousarray(self._known.distances[:, :k])
        entries = np.ascontiguousarray(self._entries[:, :k])
        slots, values = np.empty(entries.shape, np.int64), np.empty(entries.shape, np.int32)
        find_slots(automaton.columns, entries, slots, values)
        return Neighbours(slots, values, distances)


class BlockWalk:
    """A block of documents, longest first, walked from their starts to their ends."""

    def __init__(
        self,
        automata: Mapping[str, Automaton],
        specs: Sequence[WalkSpec],
        settings: WalkSettings,
        documents: Rows,
        lengths: Rows,
        suffixes: Suffixes | None = None,
        threads: int = 1,
    ) -> None:
        self._documents, self._lengths, self._k = documents, lengths, settings.k
        self._searched = most_neighbours(specs, settings, automata)
        self._suffixes = suffixes
        # Tokens before the position of every document, the latest first.
        longest = suffixes.longest if suffixes else 1
        self._recent = np.full((len(documents), longest), -1, np.int32)
        self._tracks = [
            Track(automata[group[0].automaton], group, settings, documents, threads)
            for group in _grouped(specs)
        ]

    def begin_after(self, tokens: NDArray[np.int32]) -> None:
        """Say which token each document begins with, if that token has no position."""
        self._recent[:, 0] = tokens

    def walk(
        self,
        reading: Reading,
        starts: Rows,
        steps: range,
        temperatures: NDArray[np.float64],
        find: Find,
        gate: NDArray[np.bool_],
    ) -> dict[WalkSpec, Walked]:
        """Walk positions `steps` of all documents; document i's rows begin at `starts[i]`."""
        made = [
            Walked.empty((len(track.specs), len(reading)), len(temperatures))
            for track in self._tracks
        ]
        for step in steps:
            active = int(np.count_nonzero(self._lengths > step))
            rows = starts[:active] + (step - steps.start)
            self._step(step, reading, rows, temperatures, find, gate[rows], made)
        return {
            spec: found.of_walk(place)
            for track, found in zip(self._tracks, made, strict=True)
            for place, spec in enumerate(track.specs)
        }

    def close(self) -> dict[str, list[int]]:
        """End the lanes' threads; return how often each walk hit its caps."""
        for track in self._tracks:
            track.close()
        return {label: row for track in self._tracks for label, row in track.caps().items()}

    def _step(
        self,
        step: int,
        reading: Reading,
        rows: Rows,
        temperatures: NDArray[np.float64],
        find: Find,
        gate: NDArray[np.bool_],
        made: Sequence[Walked],
    ) -> None:
        active, recent = len(rows), self._recent[: len(rows)]
        looked_up = np.zeros(active, np.bool_)
        for track in self._tracks:
            looked_up |= track.advance(active, recent[:, 0], gate)
        matches = self._look_up(recent, looked_up)
        draws = uniform(self._documents[:active], np.full(active, step))
        searching, suffixed = np.zeros(active, np.bool_), np.zeros(active, np.bool_)
        for track in self._tracks:
            by_search, by_suffix = track.restart(matches.lengths, draws)
            searching |= by_search
            suffixed |= by_suffix
        ready = self._tracks[0].automaton.ready(reading.queries[rows])
        near = RestartEntries(
            ready, _spread(searching, self._searched, lambda: find(rows[searching]))
        )
        after = RestartEntries(ready, _spread(suffixed, self._k, lambda: matches.entries[suffixed]))
        targets = reading.tokens[rows]
        for track, found in zip(self._tracks, made, strict=True):
            track.join(ready, near, after)
            track.record(rows, targets, reading.favourites[rows], temperatures, found)
        recent[:, 1:] = recent[:, :-1].copy()
        recent[:, 0] = targets

    def _look_up(self, recent: NDArray[np.int32], which: Mask) -> Matches:
        """What follows the longest suffixes of these documents; of the others, nothing.

        At its start all that precedes is known: a document matches those of the corpus in full.
        """
        if self._suffixes is None or not which.any():
            rows = len(recent)
            entries, lengths = np.full((rows, self._k), -1), np.zeros(rows, np.int32)
            return Matches(entries, lengths, np.zeros(rows, np.int64))
        # Without tokens there is nothing to look up.
        matches = self._suffixes.look_up(np.where(which[:, None], recent, -1), self._k)
        starting = which & (recent[:, 0] < 0)
        if starting.any() and len(first := first_entries(self._suffixes, self._k)):
            matches.entries[starting, : len(first)] = first
            matches.lengths[starting], matches.counts[starting] = self._suffixes.longest, len(first)
        return matches


def most_neighbours(
    specs: Sequence[WalkSpec], settings: WalkSettings, automata: Mapping[str, Automaton]
) -> int:
    """How many entries a search must find to serve all walks."""
    return max(spec.neighbours(settings, automata[spec.automaton].entries) for spec in specs)


def _spread(
    which: Mask, width: int, found: Callable[[], NDArray[np.int64]]
) -> NDArray[np.int64] | None:
    """What was found for these rows beside nothing for the others; None if there are none."""
    if not which.any():
        return None
    entries = np.full((len(which), width), -1)
    entries[which] = found()
    return entries


def first_entries(suffixes: Suffixes, k: int) -> NDArray[np.int64]:
    """Entries that nothing precedes, k at most, evenly spaced over the corpus."""
    first = suffixes.columns.order[: int(suffixes.columns.starts[0])].astype(np.int64)
    first = first[first < suffixes.entries]
    count = min(k, len(first))
    chosen: NDArray[np.int64] = first[(2 * np.arange(count) + 1) * len(first) // (2 * count or 1)]
    return chosen


def _grouped(specs: Sequence[WalkSpec]) -> list[list[WalkSpec]]:
    """Walks that can share lanes: of one automaton, forgetful or not, of as many neighbours."""
    kinds: dict[tuple[str, bool, bool], list[WalkSpec]] = {}
    for spec in specs:
        kinds.setdefault((spec.automaton, spec.forgetful, spec.wide), []).append(spec)
    return list(kinds.values())
