"""The nearest centroid of every row: of all of them, or of the states of its nearest cells.

Found by blocked matrix products; there never is a rows x states matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from retomaton_dist.clustering.arrays import (
    Centroids,
    Counts,
    Distances,
    Keys,
    StateOfRow,
    blocks_of,
)
from retomaton_dist.clustering.cells import (
    Cells,
    CellSlabs,
    NearCells,
    cell_finder,
    contend_in_cells,
)
from retomaton_dist.clustering.products import (
    Blocking,
    Contest,
    ProductScratch,
    begin,
    contend,
    load_block,
    load_slabs,
    settled,
)
from retomaton_dist.errors import BadInput


@dataclass(frozen=True)
class Nearest:
    """The state of each row, and the squared distance to its centroid."""

    states: StateOfRow
    distances: Distances


FindStates = Callable[[Keys], Nearest]
"""Gives every row its state: a pure function of the row and of what it was prepared from."""


def finder(centroids: Centroids, cells: Cells | None, blocking: Blocking) -> FindStates:
    """Prepare to find states among all centroids, or within cells where there are any."""
    if cells is None:
        return find_among_all(centroids, blocking)
    return find_in_cells(centroids, cells, blocking)


def find_among_all(centroids: Centroids, blocking: Blocking) -> FindStates:
    """Prepare to give rows the nearest of all centroids; ties go to the lower state."""
    if not np.isfinite(centroids).all(axis=1).any():
        raise _nothing_to_find()
    slabs = load_slabs(centroids, 0, len(centroids), blocking)
    return lambda keys: _find(
        keys, centroids, blocking, blocking.rows, lambda contest, _: contend(contest, slabs)
    )


def find_in_cells(centroids: Centroids, cells: Cells, blocking: Blocking) -> FindStates:
    """Prepare to give rows the nearest centroid of their nearest cells; ties to the lower state.

    A row whose cells have no centroid at all is compared with every centroid.
    """
    find_cells = cell_finder(cells, blocking, ranked=False)
    find = find_in_seen_cells(centroids, cells.offsets, blocking)
    return lambda keys: find(keys, find_cells(keys))


def find_in_seen_cells(
    centroids: Centroids, offsets: Counts, blocking: Blocking
) -> Callable[[Keys, NearCells], Nearest]:
    """Prepare to do the same for rows whose cells are known. Cells' first states: `offsets`."""
    slabs, rows = (
        CellSlabs(centroids, offsets, blocking),
        blocking.rows_in_block(centroids.shape[1]),
    )
    return lambda keys, near: _find(
        keys,
        centroids,
        blocking,
        rows,
        lambda contest, part: contend_in_cells(contest, slabs, near[part]),
    )


def _find(
    keys: Keys,
    centroids: Centroids,
    blocking: Blocking,
    size: int,
    compare: Callable[[Contest, slice], None],
) -> Nearest:
    """The nearest of the centroids that blocks of `size` rows are compared with."""
    states, distances = np.empty(len(keys), np.int32), np.empty(len(keys), np.float32)
    scratch = ProductScratch(blocking.device)
    for part in blocks_of(len(keys), size):
        contest = begin(load_block(keys[part], blocking.device), 1, scratch, blocking.rows)
        compare(contest, part)
        found, away = settled(contest, centroids)
        if found.min(initial=0) < 0:
            raise _nothing_to_find()
        states[part], distances[part] = found[:, 0], away[:, 0]
    return Nearest(states, distances)


def _nothing_to_find() -> BadInput:
    return BadInput("no state has a centroid: ask for at least one state over at least one key")
