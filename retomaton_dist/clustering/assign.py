"""The nearest centroid of every row, by blocked matrix products; never a rows x states matrix."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from retomaton_dist.clustering.arrays import Centroids, Distances, Rows, States
from retomaton_dist.clustering.blocks import blocks_of
from retomaton_dist.clustering.products import (
    Blocking,
    begin,
    contend,
    load_block,
    load_slabs,
    rooms_on,
    settled,
)
from retomaton_dist.errors import BadInput


@dataclass(frozen=True)
class Nearest:
    """The state of each row, and the squared distance to its centroid."""

    states: States
    distances: Distances


Find = Callable[[Rows], Nearest]
"""Gives every row its state: a pure function of the row and of what the `Find` was made from."""


def find_among_all(centroids: Centroids, blocking: Blocking) -> Find:
    """Prepare to give rows the nearest of all centroids; ties go to the lower state."""
    check_centroids(centroids)
    slabs = load_slabs(centroids, 0, len(centroids), blocking)

    def find(rows: Rows) -> Nearest:
        nearest, rooms = room_for(len(rows)), rooms_on(blocking.device)
        for part in blocks_of(len(rows), blocking.rows):
            contest = begin(load_block(rows[part], blocking.device), 1, rooms)
            everyone = np.arange(part.stop - part.start)
            for slab in slabs:
                contend(contest, slab, everyone)
            found, distances = settled(contest, centroids)
            nearest.states[part], nearest.distances[part] = found[:, 0], distances[:, 0]
        return nearest

    return find


def check_centroids(centroids: Centroids) -> None:
    """Raise BadInput unless there is a centroid to be nearest to."""
    if not np.isfinite(centroids).all(axis=1).any():
        raise BadInput("no state has a centroid: ask for at least one state over at least one key")


def room_for(rows: int) -> Nearest:
    """Return room for the states of `rows` rows."""
    return Nearest(np.empty(rows, np.int32), np.empty(rows, np.float32))
