"""The nearest centroid of every row: of all of them, or of the states of its nearest cells.

Cells are a coarse division of space, so that a row is compared with the states near to it alone.
Cells of many states are themselves found through cells: a row is compared with the centres of the
few cells of the level above that are nearest to it, then with the states of the few nearest ones.
All is found by blocked matrix products; there never is a rows x states matrix.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

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
    settled,
)
from retomaton_dist.errors import BadInput

NearCells: TypeAlias = NDArray[np.int32]
"""The cells that each row sees, [rows, probes]; -1 where there are fewer."""

_FindCells = Callable[[RowBlock, ProductScratch], NearCells]


@dataclass(frozen=True)
class Cells:
    """A coarse division of space: cell c holds states offsets[c] .. offsets[c + 1] - 1.

    A row is compared with the states of the `probes` cells whose centres are nearest to it: of
    all centres, or of those in the cells `above` that it sees. The centres stay where they are
    while centroids move, so which cells a row sees never changes.
    """

    centres: Centroids
    offsets: Counts
    probes: int
    above: "Cells | None" = None

    @property
    def levels(self) -> int:
        """How many times a row is compared with something until its state is found."""
        return 2 if self.above is None else 1 + self.above.levels


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


class CellSlabs:
    """The states of cells, ready to be multiplied: brought when asked for, kept while they fit.

    Rows ask for cells in ascending order, block after block: to forget the oldest for the newest
    would be to forget each just before it is needed again, and leave memory in pieces.
    """

    def __init__(self, targets: Centroids, offsets: Counts, blocking: Blocking) -> None:
        self._targets, self._offsets, self._blocking = targets, offsets, blocking
        self._kept: dict[int, tuple[CentroidSlab, ...]] = {}
        self._room = blocking.slab_memory

    def __getitem__(self, cell: int) -> tuple[CentroidSlab, ...]:
        if cell in self._kept:
            return self._kept[cell]
        first, last = int(self._offsets[cell]), int(self._offsets[cell + 1])
        slabs = load_slabs(self._targets, first, last, self._blocking)
        size = sum(4 * slab.doubled.numel() for slab in slabs)
        if size <= self._room:
            self._kept[cell] = slabs
            self._room -= size
        return slabs

    def __len__(self) -> int:
        return len(self._offsets) - 1


def contend_in_cells(contest: Contest, slabs: CellSlabs, near: NearCells) -> None:
    """Let the states of the cells that each row sees contend for it.

    All states contend for a row whose cells have no centroid at all.
    """
    for cell, members in _rows_by_cell(near):
        contend(contest, slabs[cell], members)
    forlorn = np.flatnonzero(contest.contenders.filled == 0)
    if len(forlorn):
        for cell in range(len(slabs)):
            contend(contest, slabs[cell], forlorn)


def cell_finder(cells: Cells, blocking: Blocking, *, ranked: bool) -> Callable[[Keys], NearCells]:
    """Prepare to find the cells that rows see; ties go to the lower cell.

    If `ranked` they come nearest first, else in any order, which takes less.
    """
    find = _block_finder(cells, blocking, ranked)

    def find_all(keys: Keys) -> NearCells:
        near, scratch = (
            np.empty((len(keys), cells.probes), np.int32),
            ProductScratch(blocking.device),
        )
        for part in blocks_of(len(keys), blocking.rows_in_block(keys.shape[1])):
            near[part] = find(load_block(keys[part], blocking.device), scratch)
        return near

    return find_all


def _block_finder(cells: Cells, blocking: Blocking, ranked: bool) -> _FindCells:
    above, centres = cells.above, cells.centres
    if above is None:
        among = load_slabs(centres, 0, len(centres), blocking)

        def find_among_all(block: RowBlock, scratch: ProductScratch) -> NearCells:
            contest = begin(block, cells.probes, scratch, blocking.rows)
            contend(contest, among)
            return settled(contest, centres, ranked)[0]

        return find_among_all
    find_above = _block_finder(above, blocking, ranked=False)
    slabs = CellSlabs(centres, above.offsets, blocking)

    def find_through_cells(block: RowBlock, scratch: ProductScratch) -> NearCells:
        near = find_above(block, scratch)
        contest = begin(block, cells.probes, scratch, blocking.rows)
        contend_in_cells(contest, slabs, near)
        return settled(contest, centres, ranked)[0]

    return find_through_cells


def _rows_by_cell(near: NearCells) -> Iterator[tuple[int, NDArray[np.int64]]]:
    flat = near.ravel()
    if flat.max(initial=0) < 1 << 15:
        flat = flat.astype(np.int16)  # of which a stable order is found without comparing them
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat, 0, sorter=order) :]
    present, starts = np.unique(flat[order], return_index=True)
    for cell, members in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield cell, members // near.shape[1]
