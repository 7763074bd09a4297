"""Rows in the order of their nearest cells, and how many states each cell is split into.

Rows of a unit go to one run per cell. Within a cell they keep their order, so that the place of a
row depends on the rows alone, whoever finds it.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Counts, Keys
from retomaton_dist.clustering.assign import NearCells, find_among_all
from retomaton_dist.clustering.draw import different, priorities
from retomaton_dist.clustering.lloyd import cluster_rows
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import ROWS_PER_STATE, SPLIT_ITERATIONS
from retomaton_dist.clustering.sums import digits_of, total_of

WEIGHED_ROWS = 1 << 10
SPLIT_WORK = 10**12
_MASS = 2**40


@dataclass(frozen=True)
class CellRun:
    """Rows of a unit whose nearest cell is the same: `rows` go to `place` and what follows."""

    place: int
    rows: NDArray[np.int64]


def count_rows(near: NearCells, cells: int) -> Counts:
    """Count the rows that each cell is nearest to."""
    return np.bincount(near[:, 0], minlength=cells)


def places_of_units(counts: Callable[[], Iterable[Counts]]) -> Iterator[Counts]:
    """Yield where the first row of each cell goes, unit after unit: all of a cell's come together.

    `counts` gives the units' counts, one by one, and is asked twice: they are never all in memory.
    """
    total: Counts = sum(counts(), start=np.zeros(1, np.int64))
    reached = np.cumsum(total) - total
    for some in counts():
        yield reached.copy()
        reached += some


def runs_of(near: NearCells, places: Counts) -> Iterator[CellRun]:
    """Divide the rows of a unit by their nearest cell."""
    home = near[:, 0]
    order = np.argsort(home, kind="stable")
    cells, starts = np.unique(home[order], return_index=True)
    bounds = itertools.pairwise([*starts.tolist(), len(order)])
    for cell, (first, last) in zip(cells.tolist(), bounds, strict=True):
        yield CellRun(int(places[cell]), order[first:last])


def limited(first: int, last: int, limit: int, seed: int) -> NDArray[np.int64]:
    """Draw at most `limit` of the rows first..last-1, in ascending order."""
    rows = np.arange(first, last)
    if len(rows) <= limit:
        return rows
    return rows[np.sort(np.argsort(priorities(rows, seed))[:limit])]


def weigh(keys: Keys, rows: int, blocking: Blocking) -> float:
    """Weigh a cell of so many rows, to judge by these: what its rows lie apart, squared.

    Equal keys count once, or they would claim states by their mass.
    """
    if not rows:
        return 0.0
    apart = different(keys)
    mean = cluster_rows(apart, 1, 1, 0, blocking)
    distances = find_among_all(mean, blocking)(apart).distances
    return total_of(digits_of(distances)) * (rows / len(keys))


def group_cells(sizes: Counts, most: int) -> list[tuple[int, int]]:
    """Cut cells into groups first..last-1 whose sizes add up to `most` at most, or of one cell."""
    groups, first, total = [], 0, 0
    for cell, size in enumerate(sizes.tolist()):
        if cell > first and total + size > most:
            groups.append((first, cell))
            first, total = cell, 0
        total += size
    return [*groups, (first, len(sizes))]


def split_rows(states: int, dimension: int) -> int:
    """Choose how many rows at most a cell is split from: the splitting must not take long."""
    work = states * dimension * SPLIT_ITERATIONS
    return min(states * ROWS_PER_STATE, max(4 * states, SPLIT_WORK // work))


def masses_of(weights: NDArray[np.float64], rows: Counts) -> Counts:
    """Whole numbers in proportion to the cells' weights; what has rows has some mass."""
    total = float(weights.sum()) or 1.0
    masses = (weights / total * _MASS).astype(np.int64)
    return np.where(rows > 0, np.maximum(masses, 1), 0)


def apportion(masses: Counts, states: int) -> Counts:
    """Divide `states` among cells: one each for those with mass, the others in proportion to it.

    Fractions go to the largest remainders, ties to the lower cell; the sum is exactly `states`,
    of which there must be at least as many as cells with mass.
    """
    shares = (masses > 0).astype(np.int64)
    rest, total = states - int(shares.sum()), int(masses.sum())
    assert rest >= 0, "fewer states than cells"
    exact = [divmod(rest * mass, total) for mass in masses.tolist()]
    shares += np.array([whole for whole, _ in exact])
    order = np.argsort([-remainder for _, remainder in exact], kind="stable")
    shares[order[: states - int(shares.sum())]] += 1
    return shares
