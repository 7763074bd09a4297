"""Walking many documents at once, with all walks that an evaluation asks for.

Documents advance in lock-step: one step is one position of each. What all lanes of a step must
search is found by one call, and the queries are made ready once for all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import CANDIDATES_CAPPED, EMPTY, STATES_CAPPED
from retomaton_dist.automaton.automaton import Automaton, Neighbours, find_slots
from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.automaton.summing import observe
from retomaton_dist.automaton.walk_settings import WalkSettings
from retomaton_dist.codec.codec import Queries
from retomaton_dist.evaluation.reading import Reading
from retomaton_dist.evaluation.walks import WalkSpec

Rows = NDArray[np.int64]
Find = Callable[[Rows], NDArray[np.int64]]
"""The entries nearest to the queries of some rows, [rows, k]."""


@dataclass(frozen=True)
class Walked:
    """What one walk came to, row by row.

    `sums` are log-sums [rows, temperatures, target or all, pointed or other], relative to the
    nearest candidate: log sum exp((nearest - distance) / temperature). `states` is n.
    """

    sums: NDArray[np.float32]
    searched: NDArray[np.bool_]
    states: NDArray[np.int32]
    candidates: NDArray[np.int32]
    pointed: NDArray[np.int32]
    nearest: NDArray[np.float32]

    @classmethod
    def empty(cls, shape: tuple[int, ...], temperatures: int) -> "Walked":
        """Rows, or walks and rows, without candidates and without searches."""
        return cls(
            sums=np.full((*shape, temperatures, 2, 2), -np.inf, np.float32),
            searched=np.zeros(shape, np.bool_),
            states=np.zeros(shape, np.int32),
            candidates=np.zeros(shape, np.int32),
            pointed=np.zeros(shape, np.int32),
            nearest=np.full(shape, np.inf, np.float32),
        )

    def of_walk(self, place: int) -> "Walked":
        """The rows of one walk, if there are several."""
        return Walked(**{name: column[place] for name, column in vars(self).items()})


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
        self._documents = documents
        taus = np.repeat([spec.tau for spec in specs], len(documents))
        self.lanes = Lanes(automaton, settings, taus, threads)
        self.lanes.reset(np.tile(documents, len(specs)))
        self._places, self._chosen = np.empty(0, np.int64), np.empty(0, np.int64)

    def advance(
        self, active: int, tokens: NDArray[np.int32], gate: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Follow the tokens of the first `active` documents; say which of them must be searched.

        A forgetful walk stays away from documents whose `gate` is closed.
        """
        self._places = np.flatnonzero(gate) if self._forgetful else np.arange(active)
        starts = np.arange(len(self.specs))[:, None] * len(self._documents)
        self._chosen = (starts + self._places).ravel()
        if self._forgetful:
            self.lanes.reset(self._documents[self._places], self._chosen)
        searching = self.lanes.advance(np.tile(tokens[self._places], len(starts)), self._chosen)
        needed = np.zeros(active, np.bool_)
        needed[self._places] = searching.reshape(len(starts), -1).any(axis=0)
        return needed

    def join(self, queries: Queries, neighbours: Neighbours) -> None:
        """Give the lanes that advanced their candidates."""
        self.lanes.join(queries, neighbours, self._by_lane(self._places), self._chosen)

    def record(
        self,
        rows: Rows,
        targets: NDArray[np.int32],
        temperatures: NDArray[np.float64],
        found: Walked,
    ) -> None:
        """Write down what came of the step, into `found`: walks and rows."""
        shape = len(self.specs), len(self._places)
        chosen, arrays = self._chosen, self.lanes.arrays
        nearest, pointed = np.empty(len(chosen), np.float32), np.empty(len(chosen), np.int32)
        observe(arrays, chosen, nearest, pointed)
        sums = self.lanes.log_sums(self._by_lane(targets[self._places]), temperatures, chosen)
        near = np.where(np.isfinite(nearest), nearest, 0).astype(np.float64)
        sums += (near[:, None] / temperatures)[:, :, None, None]
        places = rows[self._places]
        found.sums[:, places] = sums.reshape(*shape, *sums.shape[1:])
        found.searched[:, places] = arrays.searching[chosen].reshape(shape)
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

    def _by_lane(self, column: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.tile(column, len(self.specs))


class Block:
    """A block of documents, longest first, walked from their starts to their ends."""

    def __init__(
        self,
        automata: Mapping[str, Automaton],
        specs: Sequence[WalkSpec],
        settings: WalkSettings,
        documents: Rows,
        lengths: Rows,
        threads: int = 1,
    ) -> None:
        self._lengths, self._k = lengths, settings.k
        self._previous = np.zeros(len(documents), np.int32)
        self._tracks = [
            Track(automata[group[0].automaton], group, settings, documents, threads)
            for group in _grouped(specs)
        ]

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
            self._step(reading, rows, temperatures, find, gate[rows], made)
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
        reading: Reading,
        rows: Rows,
        temperatures: NDArray[np.float64],
        find: Find,
        gate: NDArray[np.bool_],
        made: Sequence[Walked],
    ) -> None:
        active = len(rows)
        needed = np.zeros(active, np.bool_)
        for track in self._tracks:
            needed |= track.advance(active, self._previous, gate)
        entries = np.full((active, self._k), -1)
        if needed.any():
            entries[needed] = find(rows[needed])
        ready = self._tracks[0].automaton.ready(reading.queries[rows])
        neighbours: Neighbours | None = None
        targets = reading.tokens[rows]
        for track, found in zip(self._tracks, made, strict=True):
            neighbours = _located(track.automaton, ready, entries, neighbours)
            track.join(ready, neighbours)
            track.record(rows, targets, temperatures, found)
        self._previous[:active] = targets


def _located(
    automaton: Automaton, ready: Queries, entries: NDArray[np.int64], known: Neighbours | None
) -> Neighbours:
    """Neighbours in an automaton's slots. All automata share the codec, hence the distances."""
    if known is None:
        return automaton.neighbours(ready, entries)
    slots, values = np.empty_like(known.slots), np.empty_like(known.values)
    find_slots(automaton.columns, entries, slots, values)
    return Neighbours(slots, values, known.distances)


def _grouped(specs: Sequence[WalkSpec]) -> list[list[WalkSpec]]:
    """Walks that can share lanes: of one automaton, forgetful or not."""
    kinds = dict.fromkeys((spec.automaton, spec.forgetful) for spec in specs)
    return [[spec for spec in specs if (spec.automaton, spec.forgetful) == kind] for kind in kinds]
