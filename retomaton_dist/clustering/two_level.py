"""K-means with so many states that rows cannot be compared with all of them.

Cells are found first, from a sample, by a k-means of their own, which may have cells itself. Each
is split on its own into a number of states in proportion to what its rows lie apart: so all
states end with about the same share of the inertia. Lloyd's iterations over all
rows then refine the whole, each row being compared only with the states of the few cells nearest
to it.

Up to MANY_STATES there are about 2 sqrt(K) cells: a row is compared with 5 sqrt(K) centroids
instead of K. Beyond, cells have about CELL_STATES states each, so that this work no longer grows
with K. Fewer, larger cells take longer and are hardly better (docs/explanation/algorithm.md).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Counts
from retomaton_dist.clustering.samples import passes

PLAIN_WORK = 10**12
PLAIN_STATES = 256
SPLIT_WORK = 10**12
MANY_STATES = 30_000
CELLS_PER_ROOT = 2
CELL_STATES = 100
_MASS = 2**40
LEVEL_NAMES = {1: "plain", 2: "two-level", 3: "three-level", 4: "four-level", 5: "five-level"}


@dataclass(frozen=True)
class TwoLevel:
    """The settings of k-means through cells."""

    probes: int = 6
    rows_per_state: int = 256
    split_iterations: int = 3


def wants_two_levels(rows: int, states: int, dimension: int, iterations: int) -> bool:
    """Choose the path: plain k-means while it takes about half a minute of one CPU core.

    Plain k-means compares rows with all states: rows x states x dimension multiplications per pass
    over the rows, of which a core does some 5 x 10^10 a second. Below a few hundred states there
    is little to save.
    """
    work = rows * states * dimension * passes(rows, states, iterations)
    return states > PLAIN_STATES and work > PLAIN_WORK


def cells_for(states: int) -> int:
    """Choose how many cells so many states are divided among."""
    if states <= MANY_STATES:
        return max(1, min(states, round(CELLS_PER_ROOT * math.sqrt(states))))
    return -(-states // CELL_STATES)


def cells_have_cells(states: int) -> bool:
    """Whether there may be so many cells that they are worth finding through cells themselves."""
    return states > MANY_STATES


def split_rows(states: int, dimension: int, settings: TwoLevel) -> int:
    """Choose how many rows at most a cell is split from: the splitting must not take long."""
    work = states * dimension * settings.split_iterations
    return min(states * settings.rows_per_state, max(4 * states, SPLIT_WORK // work))


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
