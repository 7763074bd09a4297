"""The automaton A = (Q, Sigma, q0, delta, phi), mapped from its folder or made from arrays."""

import operator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.automaton.arrays import Columns, are_singles, find_slots
from retomaton_dist.codec.codec import Codec, Queries, read_only
from retomaton_dist.codec.named import open_codec
from retomaton_dist.codec.threads import Threads
from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.storage.automaton import AUTOMATA

_ONE_THREAD = Threads(1)
# Of entries, whose distances tell how far entries are from each other.
PAIRS = 1024


class Neighbours(NamedTuple):
    """What searches found, a row per query: slots (-1: nothing), values, and distances by codec."""

    slots: NDArray[np.int64]
    values: NDArray[np.int32]
    distances: NDArray[np.float32]


class Weights(NamedTuple):
    """phi(q, c, w), a row per state q and token w that a member of q has."""

    states: NDArray[np.int64]
    tokens: NDArray[np.int32]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Automaton:
    """Columns in slot order and the distance codec; read-only, shared by any number of lanes."""

    columns: Columns
    codec: Codec

    def __post_init__(self) -> None:
        # Kernels are compiled once for read-only arrays, which is what maps are.
        frozen = Columns(*(read_only(column) for column in self.columns))
        object.__setattr__(self, "columns", frozen)

    @classmethod
    def open(cls, path: str | Path) -> "Automaton":
        """Map an automaton's folder: nothing is copied; truncated or foreign files are refused."""
        files = AUTOMATA.open(Path(path))
        columns = Columns(*(files.column(name) for name in Columns._fields))
        return cls(columns, open_codec(files))

    def __repr__(self) -> str:
        size = f"{self.entries:,} entries in {self.states:,} states"
        return f"<Automaton: {size}, keys of {self.dimension} dimensions>"

    @property
    def entries(self) -> int:
        """N."""
        return len(self.columns.values)

    @property
    def states(self) -> int:
        """|Q|, without the initial state q0."""
        return len(self.columns.offsets) - 1

    @cached_property
    def unclustered(self) -> bool:
        """Whether no state has more than one member; some may have none."""
        return are_singles(self.columns.offsets)

    @cached_property
    def typical_distance(self) -> float:
        """Median distance between two entries drawn at random, equal keys left out.

        The draws are the same for all automata of a store. 1 if all keys are equal.
        """
        pairs = np.random.default_rng(0).integers(0, self.entries, (PAIRS, 2))
        slots = self.columns.slots[pairs].astype(np.int64)
        left, right = (self.codec.keys(ends).astype(np.float64) for ends in slots.T)
        distances = ((left - right) ** 2).sum(axis=1)
        if not np.isfinite(distances).all():
            raise DamagedStore("keys of the automaton are NaN or infinite: its codec is damaged")
        return float(np.median(distances[distances > 0])) if distances.any() else 1.0

    @property
    def dimension(self) -> int:
        """Width d of keys and queries."""
        return self.codec.dimension

    def members(self, state: int) -> NDArray[np.int64]:
        """pi^-1(q): entries of a state, by value and then by entry."""
        first, last = self.columns.offsets[(q := self._state(state)) : q + 2]
        return self.columns.entries[first:last].astype(np.int64)

    def state_of(self, entry: int) -> int:
        """pi(e): the state of an entry."""
        number = operator.index(entry)
        if not 0 <= number < self.entries:
            raise BadInput(f"entry {entry} is outside 0..{self.entries - 1}")
        return int(self.columns.states[self.columns.slots[number]])

    def transitions(self, state: int, token: int) -> NDArray[np.int64]:
        """delta(q, w): the states that pointers of members with value w lead to."""
        first, last = self.columns.offsets[(q := self._state(state)) : q + 2]
        run = slice(*np.searchsorted(self.columns.values[first:last], [token, token + 1]))
        nexts = self.columns.nexts[first:last][run].astype(np.int64)
        inside = nexts[(nexts >= 0) & (nexts < self.entries)]
        return np.unique(self.columns.states[inside]).astype(np.int64)

    def next_states(self, states: ArrayLike, token: int) -> NDArray[np.int64]:
        """delta-hat(S, w): the union of delta(q, w) over the states q of S."""
        reached = [self.transitions(int(state), token) for state in np.atleast_1d(states)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *reached]))

    def weights(self, states: ArrayLike, query: ArrayLike, temperature: float = 1.0) -> Weights:
        """phi(q, c, w) = sum of exp(-dist / temperature) over the members of q with value w."""
        ready = self.ready(np.asarray(query)[None])
        ranges = [self.columns.offsets[(q := self._state(s)) : q + 2] for s in np.ravel(states)]
        slots = np.concatenate([np.empty(0, np.int64), *(np.arange(*each) for each in ranges)])
        slots = slots.astype(np.int64)
        distances = self.codec.distances(ready, slots[None], _ONE_THREAD)[0].astype(np.float64)
        pairs = np.stack([self.columns.states[slots], self.columns.values[slots]])
        unique, place = np.unique(pairs.astype(np.int64), axis=1, return_inverse=True)
        summed = np.zeros(unique.shape[1])
        np.add.at(summed, place.ravel(), np.exp(-distances / temperature))
        return Weights(unique[0], unique[1].astype(np.int32), summed)

    def ready(self, queries: ArrayLike, threads: Threads = _ONE_THREAD) -> Queries:
        """Make queries [rows, d] ready to measure distances from."""
        return self.codec.ready(queries, threads)

    def neighbours(
        self, queries: Queries, entries: ArrayLike, threads: Threads = _ONE_THREAD
    ) -> Neighbours:
        """Look up what a search found: entries [rows, k], -1 where it found fewer.

        Their distances are the codec's, so that an entry has one distance however it was found.
        """
        found: NDArray[Any] = np.asarray(entries)
        if found.ndim != 2 or len(found) != queries.rows:
            raise BadInput(f"neighbours of shape {found.shape} for {queries.rows} queries")
        if found.size and not -1 <= found.min() <= found.max() < self.entries:
            raise BadInput(f"a neighbour is outside 0..{self.entries - 1}")
        slots, values = np.empty(found.shape, np.int64), np.empty(found.shape, np.int32)
        find_slots(self.columns, np.ascontiguousarray(found, np.int64), slots, values)
        return Neighbours(slots, values, self.codec.distances(queries, slots, threads))

    def _state(self, state: Any) -> int:
        number = operator.index(state)
        if not 0 <= number < self.states:
            raise BadInput(f"state {state} is outside 0..{self.states - 1}")
        return number
