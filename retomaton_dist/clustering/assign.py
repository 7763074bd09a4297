"""The nearest centroid of every row: of all of them, or of the states of its nearest cells.

Found by blocked matrix products; there never is a rows x states matrix.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import (
    Centroids,
    Counts,
    Distances,
    Keys,
    StateOfRow,
    blocks_of,
)
from retomaton_dist.clustering.products import (
    Blocking,
    CentroidSlab,
    Contest,
    ProductScratch,
    RowBlock,
    begin,
    contend,
    load_block,
    load_slabs,
    scratch_on,
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


@dataclass(frozen=True)
class Cells:
    """A coarse division of space: cell c holds states offsets[c] .. offsets[c + 1] - 1.

    A row is compared with the states of the `probes` cells whose centres are nearest to it. The
    centres stay where they are while centroids move, so which cells a row sees never changes.
    """

    centres: Centroids
    offsets: Counts
    probes: int


def finder(centroids: Centroids, cells: Cells | None, blocking: Blocking) -> FindStates:
    """Prepare to find states among all centroids, or within cells where there are any."""
    if cells is None:
        return find_among_all(centroids, blocking)
    return find_in_cells(centroids, cells, blocking)


def find_among_all(centroids: Centroids, blocking: Blocking) -> FindStates:
    """Prepare to give rows the nearest of all centroids; ties go to the lower state."""
    _check_centroids(centroids)
    slabs = load_slabs(centroids, 0, len(centroids), blocking)

    def find(keys: Keys) -> Nearest:
        nearest, scratch = _no_states(len(keys)), scratch_on(blocking.device)
        for part in blocks_of(len(keys), blocking.rows):
            contest = begin(load_block(keys[part], blocking.device), 1, scratch)
            contend(contest, slabs)
            _note(nearest, part, contest, centroids)
        return nearest

    return find


def find_in_cells(centroids: Centroids, cells: Cells, blocking: Blocking) -> FindStates:
    """Prepare to give rows the nearest centroid of their nearest cells; ties to the lower state.

    A row whose cells have no centroid at all is compared with every centroid.
    """
    _check_centroids(centroids)
    centres = load_slabs(cells.centres, 0, len(cells.centres), blocking)
    states = _slabs_of_cells(centroids, cells, blocking)

    def find(keys: Keys) -> Nearest:
        nearest, scratch = _no_states(len(keys)), scratch_on(blocking.device)
        for part in blocks_of(len(keys), blocking.grouped_rows):
            block = load_block(keys[part], blocking.device)
            near = _near_cells(block, cells, centres, scratch)
            contest = begin(block, 1, scratch)
            for cell, members in _rows_by_cell(near):
                contend(contest, states[cell], members)
            forlorn = np.flatnonzero(contest.contenders.filled == 0)
            if len(forlorn):
                contend(contest, itertools.chain(*states), forlorn)
            _note(nearest, part, contest, centroids)
        return nearest

    return find


def _check_centroids(centroids: Centroids) -> None:
    if not np.isfinite(centroids).all(axis=1).any():
        raise BadInput("no state has a centroid: ask for at least one state over at least one key")


def _no_states(rows: int) -> Nearest:
    return Nearest(np.empty(rows, np.int32), np.empty(rows, np.float32))


def _note(nearest: Nearest, part: slice, contest: Contest, centroids: Centroids) -> None:
    found, distances = settled(contest, centroids)
    nearest.states[part], nearest.distances[part] = found[:, 0], distances[:, 0]


def _slabs_of_cells(
    centroids: Centroids, cells: Cells, blocking: Blocking
) -> list[tuple[CentroidSlab, ...]]:
    bounds = itertools.pairwise(cells.offsets.tolist())
    return [load_slabs(centroids, first, last, blocking) for first, last in bounds]


def _near_cells(
    block: RowBlock, cells: Cells, centres: tuple[CentroidSlab, ...], scratch: ProductScratch
) -> NDArray[np.int32]:
    contest = begin(block, cells.probes, scratch)
    contend(contest, centres)
    return settled(contest, cells.centres, ranked=False)[0]


def _rows_by_cell(near: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    flat = near.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat, 0, sorter=order) :]
    present, starts = np.unique(flat[order], return_index=True)
    for cell, members in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield cell, members // near.shape[1]
