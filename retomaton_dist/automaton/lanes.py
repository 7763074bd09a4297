"""Many documents walked at once.

A step of a lane is three calls:

    searching = lanes.advance(tokens)                # w of each lane; which of them must search
    lanes.join(queries, neighbours)                  # candidates, measured
    sums = lanes.log_sums(targets, temperatures)     # or lanes.distributions(...)

Their kernels are `follow` (which calls `fill`), `join` and `sums`; the codec measures.

Results do not depend on the number of threads nor on which lanes advance together. One `Lanes`
serves one thread at a time; any number of them may share an automaton.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.automaton import follow, join
from retomaton_dist.automaton import sums as summing
from retomaton_dist.automaton.arrays import LaneArrays, Rules, make_lanes, make_scratch
from retomaton_dist.automaton.automaton import Automaton, Neighbours
from retomaton_dist.codec.codec import Queries
from retomaton_dist.codec.threads import Threads
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import WalkSettings, check_tau

Chosen = NDArray[np.int64]


class Distributions(NamedTuple):
    """Row i: the first `counts[i]` tokens that lane i's candidates have, and their p_auto.

    `probabilities` is [lanes, versions, tokens]; behind the tokens that there are it is 0.
    """

    tokens: NDArray[np.int32]
    probabilities: NDArray[np.float64]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Walk:
    """Candidates of one lane after a step, for people and tests: entries, not slots."""

    entries: NDArray[np.int64]
    values: NDArray[np.int32]
    distances: NDArray[np.float32]
    pointed: NDArray[np.bool_]
    states: NDArray[np.int64]
    found: int
    searched: bool


class Lanes:
    """As many lanes as thresholds `taus` are given, all at the start of document 0."""

    def __init__(
        self, automaton: Automaton, settings: WalkSettings, taus: ArrayLike, threads: int = 1
    ) -> None:
        thresholds = np.atleast_1d(np.asarray(taus, np.float64))
        for tau in thresholds:
            check_tau(float(tau))
        self.automaton, self.settings = automaton, settings
        self._rules = _rules(settings, automaton)
        reached = min(settings.max_states, automaton.states)
        sizes = settings.k, settings.max_knns, reached
        self.arrays: LaneArrays = make_lanes(len(thresholds), *sizes)
        self.arrays.taus[:] = thresholds
        self._threads = Threads(threads)
        self._scratch = [make_scratch(*sizes) for _ in range(threads)]
        self._advanced = np.zeros(len(thresholds), np.bool_)
        self._busy = threading.Lock()

    def __len__(self) -> int:
        return len(self._advanced)

    def reset(self, documents: ArrayLike, lanes: ArrayLike | None = None) -> None:
        """Put lanes at the start of documents, whose numbers go into the hash."""
        chosen = self._chosen(lanes)
        self.arrays.documents[chosen] = _matching(documents, chosen, np.int64, "documents")
        for rows in (self.arrays.steps, self.arrays.state_counts, self.arrays.counts):
            rows[chosen] = 0
        self._advanced[chosen] = False

    def copy(self, sources: ArrayLike, lanes: ArrayLike) -> None:
        """Have `lanes` go on from where `sources` are: what beams and samples need.

        A source may be there several times, and among the lanes, too.
        """
        taken, chosen = np.atleast_1d(np.asarray(sources, np.int64)), self._chosen(lanes)
        self._chosen(np.unique(taken))
        if len(taken) != len(chosen):
            raise BadInput(f"{len(taken)} lanes cannot be copied to {len(chosen)}")
        for rows in (*self.arrays, self._advanced):
            rows[chosen] = rows[taken]

    def advance(self, tokens: ArrayLike, lanes: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Follow each lane's token; return which lanes must search.

        At the start of a document there is nothing to follow, whatever the token.
        """
        chosen = self._chosen(lanes)
        self._check_order(chosen, advanced=False)
        followed = _matching(tokens, chosen, np.int32, "tokens")

        def work(share: int, part: slice) -> None:
            follow.follow(
                self.automaton.columns,
                self.arrays,
                self._rules,
                self._scratch[share],
                chosen[part],
                followed[part],
            )

        self._share(work, chosen)
        self._advanced[chosen] = True
        return self.arrays.searching[chosen]

    def join(
        self,
        queries: Queries,
        neighbours: Neighbours | None = None,
        rows: ArrayLike | None = None,
        lanes: ArrayLike | None = None,
    ) -> None:
        """Give lanes that advanced their candidates, with distances from their queries.

        Lane i's query, and what was found for it, is row `rows[i]`; by default row i. Lanes that
        do not search take nothing from `neighbours`, so that those may serve all lanes of a row.
        """
        chosen = self._chosen(lanes)
        self._check_order(chosen, advanced=True)
        places = np.arange(len(chosen)) if rows is None else rows
        row = _matching(places, chosen, np.int64, "rows")
        if len(row) and not 0 <= row.min() <= row.max() < queries.rows:
            raise BadInput(f"{len(chosen)} lanes and {queries.rows} queries do not match")
        found = self._found(neighbours, chosen, queries.rows)
        codec, arrays = self.automaton.codec, self.arrays

        def work(share: int, part: slice) -> None:
            scratch = self._scratch[share]
            of_lane = chosen[part], row[part]
            join.join(self.automaton.columns, arrays, self._rules, scratch, *of_lane, *found)
            codec.measure(
                queries,
                row[part],
                arrays.slots,
                arrays.distances,
                chosen[part],
                arrays.searched,
                arrays.counts,
            )

        self._share(work, chosen)
        self._advanced[chosen] = False

    def log_sums(
        self,
        targets: ArrayLike,
        temperatures: ArrayLike,
        lanes: ArrayLike | None = None,
        *,
        of_all: bool = True,
    ) -> NDArray[np.float64]:
        """Log-sums [lanes, temperatures, target or all, pointed or other]; temperatures rise.

        Not `of_all`: there is the target's half alone, at much less cost.
        """
        chosen = self._chosen(lanes)
        wanted = _matching(targets, chosen, np.int32, "targets")
        grid = np.atleast_1d(np.asarray(temperatures, np.float64))
        _check_temperatures(grid)
        sums = np.empty((len(chosen), len(grid), 2 if of_all else 1, 2))

        def work(_: int, part: slice) -> None:
            summing.log_sums(self.arrays, chosen[part], wanted[part], grid, sums[part])

        self._share(work, chosen)
        return sums

    def distributions(
        self, versions: Sequence[tuple[float, float]], lanes: ArrayLike | None = None
    ) -> Distributions:
        """p_auto of every token that occurs among a lane's candidates.

        A version is a temperature and a pointer weight.
        """
        chosen = self._chosen(lanes)
        # Copies by column: a kernel takes contiguous ones.
        temperatures, weights = np.array(versions, np.float64).reshape(-1, 2).T.copy()
        for temperature in temperatures:
            _check_temperatures(np.array([temperature]))
        rows, size = len(chosen), self.arrays.slots.shape[1]
        made = Distributions(
            np.zeros((rows, size), np.int32),
            np.zeros((rows, len(temperatures), size)),
            np.zeros(rows, np.int64),
        )

        def work(_: int, part: slice) -> None:
            summing.distributions(
                self.arrays,
                chosen[part],
                temperatures,
                weights,
                made.tokens[part],
                made.probabilities[part],
                made.counts[part],
            )

        self._share(work, chosen)
        return made

    def walk(self, lane: int) -> Walk:
        """Look at one lane: its candidates, its states, n, and whether it searched."""
        arrays, count = self.arrays, int(self.arrays.counts[lane])
        slots = arrays.slots[lane, :count]
        return Walk(
            entries=self.automaton.columns.entries[slots].astype(np.int64),
            values=arrays.values[lane, :count].copy(),
            distances=arrays.distances[lane, :count].copy(),
            pointed=arrays.pointed[lane, :count].copy(),
            states=arrays.states[lane, : arrays.state_counts[lane]].astype(np.int64),
            found=int(arrays.found[lane]),
            searched=bool(arrays.searching[lane]),
        )

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    def _share(self, work: Callable[[int, slice], None], chosen: Chosen) -> None:
        with self._busy:
            self._threads.run(work, len(chosen))

    def _chosen(self, lanes: ArrayLike | None) -> Chosen:
        if lanes is None:
            return np.arange(len(self))
        chosen = np.atleast_1d(np.asarray(lanes, np.int64))
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < len(self):
            raise BadInput(f"a lane is outside 0..{len(self) - 1}")
        named = np.zeros(len(self), np.bool_)
        named[chosen] = True
        if np.count_nonzero(named) != len(chosen):
            raise BadInput("a lane is named twice in one call")
        return chosen

    def _check_order(self, chosen: Chosen, *, advanced: bool) -> None:
        if (self._advanced[chosen] != advanced).any():
            raise BadInput("a step of a lane is `advance`, then `join`, once each")

    def _found(self, neighbours: Neighbours | None, chosen: Chosen, rows: int) -> tuple[Any, ...]:
        if neighbours is None:
            if self.arrays.searching[chosen].any():
                raise BadInput("lanes that must search were given no neighbours")
            return tuple(np.empty((0, 0), kind) for kind in (np.int64, np.int32, np.float32))
        if len(neighbours.slots) != rows or neighbours.slots.shape[1] > self.settings.k:
            raise BadInput(
                f"neighbours of shape {neighbours.slots.shape} for {rows} queries: there must be a "
                f"row per query, of k = {self.settings.k} at most"
            )
        return tuple(neighbours)


def _rules(settings: WalkSettings, automaton: Automaton) -> Rules:
    return Rules(
        seed=settings.seed,
        max_knns=settings.max_knns,
        max_states=settings.max_states,
        follow_members=settings.follow == "members",
        count_states=settings.count == "states",
        keep_duplicates=settings.duplicates == "keep",
        hashed=settings.members == "hashed",
        alone=automaton.unclustered,
        whole_states=settings.restart == "states",
    )


def _matching(given: ArrayLike, chosen: Chosen, kind: Any, what: str) -> NDArray[Any]:
    made: NDArray[Any] = np.ascontiguousarray(np.atleast_1d(np.asarray(given)), kind)
    if made.shape != chosen.shape:
        raise BadInput(f"{len(chosen)} lanes and {what} of shape {made.shape} do not match")
    return made


def _check_temperatures(grid: NDArray[np.float64]) -> None:
    if not ((grid > 0) & np.isfinite(grid)).all() or (np.diff(grid) <= 0).any():
        raise BadInput(f"temperatures {grid.tolist()}: must be above 0, and rise")
