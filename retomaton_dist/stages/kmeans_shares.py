"""The rows of a k-means divided among workers, each of which reads its own from the store."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Centroids, Keys, StateOfRow
from retomaton_dist.clustering.assign import Cells, finder
from retomaton_dist.clustering.in_memory import split_cell
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import (
    Assigned,
    CellSplit,
    add_assigned,
    assign_rows,
    limited,
    members_of,
    spread_unit,
)
from retomaton_dist.clustering.sums import Sums, add_sums, partial_sums
from retomaton_dist.runtime.session import Session
from storage.guarded import GuardedReader

# A member's states rest on its last two assignments: the present one and what `moved` compares.
REMEMBERED = 2


@dataclass(frozen=True)
class Sample:
    """The entries that are clustered, in order: all of the store's, or some of them."""

    reader: GuardedReader
    entries: NDArray[np.int64] | None

    def __len__(self) -> int:
        return self.reader.shape.entries if self.entries is None else len(self.entries)

    def keys(self, rows: NDArray[np.int64]) -> Keys:
        """Keys of some rows of the sample."""
        return self.reader.rows(rows if self.entries is None else self.entries[rows])

    def part(self, first: int, last: int) -> Keys:
        """Keys of the rows first..last-1: a view of the map, or a copy if the sample is drawn."""
        if self.entries is None:
            return self.reader.keys(first, last)
        return self.reader.rows(self.entries[first:last])


class KmeansShare:
    """What one worker holds: rows first..last-1 of the sample, and the states they are in."""

    def __init__(self, sample: Sample, first: int, last: int, blocking: Blocking) -> None:
        self._sample, self._first, self._blocking = sample, first, blocking
        self._keys = sample.part(first, last)
        self._states: StateOfRow | None = None

    def assign(self, centroids: Centroids, cells: Cells | None) -> Assigned:
        """Give this share's rows their states."""
        find = finder(centroids, cells, self._blocking)
        places = len(centroids), spread_unit(centroids)
        self._states, assigned = assign_rows(self._keys, self._states, find, *places)
        return assigned

    def sums(self, first: int, last: int) -> Sums:
        """Sum this share's members of states first..last-1."""
        assert self._states is not None, "sums before the first assignment"
        return partial_sums(self._keys, self._states, first, last)

    def members(self, splits: Sequence[CellSplit]) -> list[NDArray[np.int64]]:
        """Rows of the sample that this share offers for each split, at most its limit."""
        assert self._states is not None, "members before the first assignment"
        return members_of(self._states, splits, self._first)

    def split(self, jobs: Sequence[tuple[CellSplit, NDArray[np.int64]]]) -> list[Centroids]:
        """Cluster the given rows of the sample, whoever holds them, for each split."""
        return [split_cell(self._sample.keys(rows), split, self._blocking) for split, rows in jobs]


class TeamShares:
    """Implements `clustering.shares.Shares` over a team of workers."""

    def __init__(self, sample: Sample, blocking: Blocking, session: Session) -> None:
        self._sample, gpu = sample, blocking.device == "cuda"
        members = min(session.crew(gpu=gpu).workers, len(sample))
        bounds = np.linspace(0, len(sample), members + 1).astype(np.int64)
        makes = [
            partial(KmeansShare, sample, int(first), int(last), blocking)
            for first, last in itertools.pairwise(bounds)
        ]
        self._team = session.team(makes, gpu=gpu, depth=REMEMBERED)

    def __enter__(self) -> "TeamShares":
        return self

    def __exit__(self, *error: object) -> None:
        self._team.__exit__(*error)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._sample)

    def take(self, rows: NDArray[np.int64]) -> Keys:
        """Return some rows' keys, from the memory map."""
        return self._sample.keys(rows)

    def assign(self, centroids: Centroids, cells: Cells | None) -> Assigned:
        """Give every row its state; centroids travel once per node."""
        shared = self._team.share(centroids)
        return add_assigned(self._team.ask("assign", shared, cells, remember=True))

    def sums(self, first: int, last: int) -> Sums:
        """Sum the members of one range of states over all workers: only that range is here."""
        parts: list[Sums] = self._team.ask("sums", first, last)
        return reduce(add_sums, parts)

    def split(self, splits: Sequence[CellSplit]) -> Sequence[Centroids]:
        """Cluster the members of states on their own, each on one worker."""
        offered = self._team.ask("members", splits)
        rows = [
            limited(np.concatenate(parts), split)
            for split, *parts in zip(splits, *offered, strict=True)
        ]
        lists = _balanced(
            [len(r) * s.states for r, s in zip(rows, splits, strict=True)], len(self._team)
        )
        jobs = [([(splits[i], rows[i]) for i in chosen],) for chosen in lists]
        found: dict[int, Centroids] = {}
        for chosen, results in zip(lists, self._team.ask_each("split", jobs), strict=True):
            found |= dict(zip(chosen, results, strict=True))
        return [found[i] for i in range(len(splits))]


def _balanced(costs: Sequence[int], members: int) -> list[list[int]]:
    """Divide jobs among members: each, from the costliest on, to who has the least to do."""
    lists: list[list[int]] = [[] for _ in range(members)]
    loads = [0] * members
    for job in sorted(range(len(costs)), key=lambda job: -costs[job]):
        member = loads.index(min(loads))
        lists[member].append(job)
        loads[member] += costs[job]
    return lists
