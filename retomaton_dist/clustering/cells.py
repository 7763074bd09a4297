"""The nearest centroid of every row among those near it: the states of its nearest cells."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Centroids, Counts, Rows
from retomaton_dist.clustering.assign import Find, Nearest, check_centroids, room_for
from retomaton_dist.clustering.blocks import blocks_of
from retomaton_dist.clustering.products import (
    Block,
    Blocking,
    Rooms,
    Slab,
    begin,
    contend,
    load_block,
    load_slabs,
    rooms_on,
    settled,
)


@dataclass(frozen=True)
class Cells:
    """A coarse division of space: cell c holds states offsets[c] .. offsets[c + 1] - 1.

    A row is compared with the states of the `probes` cells whose centres are nearest to it. The
    centres stay where they are while centroids move, so which cells a row sees never changes.
    """

    centres: Centroids
    offsets: Counts
    probes: int


def find_in_cells(centroids: Centroids, cells: Cells, blocking: Blocking) -> Find:
    """Prepare to give rows the nearest centroid of their nearest cells; ties to the lower state.

    A row whose cells have no centroid at all is compared with every centroid.
    """
    check_centroids(centroids)
    centres = load_slabs(cells.centres, 0, len(cells.centres), blocking)
    states = _slabs_of_cells(centroids, cells, blocking)

    def find(rows: Rows) -> Nearest:
        nearest, rooms = room_for(len(rows)), rooms_on(blocking.device)
        for part in blocks_of(len(rows), blocking.grouped_rows):
            block = load_block(rows[part], blocking.device)
            near = _near_cells(block, cells, centres, rooms)
            contest = begin(block, 1, rooms)
            for cell, members in _rows_by_cell(near):
                for slab in states[cell]:
                    contend(contest, slab, members)
            forlorn = np.flatnonzero(contest.contenders.filled == 0)
            if len(forlorn):
                for slab in itertools.chain(*states):
                    contend(contest, slab, forlorn)
            found, distances = settled(contest, centroids)
            nearest.states[part], nearest.distances[part] = found[:, 0], distances[:, 0]
        return nearest

    return find


def _slabs_of_cells(
    centroids: Centroids, cells: Cells, blocking: Blocking
) -> list[tuple[Slab, ...]]:
    bounds = zip(cells.offsets[:-1].tolist(), cells.offsets[1:].tolist(), strict=True)
    return [load_slabs(centroids, first, last, blocking) for first, last in bounds]


def _near_cells(
    block: Block, cells: Cells, centres: tuple[Slab, ...], rooms: Rooms
) -> NDArray[np.int32]:
    contest = begin(block, cells.probes, rooms)
    everyone = np.arange(len(block.host))
    for slab in centres:
        contend(contest, slab, everyone)
    return settled(contest, cells.centres, ranked=False)[0]


def _rows_by_cell(near: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    flat = near.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat, 0, sorter=order) :]
    present, starts = np.unique(flat[order], return_index=True)
    for cell, members in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield cell, members // near.shape[1]
