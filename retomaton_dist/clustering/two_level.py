"""K-means with so many states that rows cannot be compared with all of them.

About sqrt(K) cells are found first, from a sample. Each is split on its own into a number of
states in proportion to its mass. Lloyd's iterations over all rows then refine the whole, each row
being compared only with the states of the few cells nearest to it: about 5 sqrt(K) products per
row instead of K.
"""

import math
from dataclasses import dataclass

import numpy as np

from retomaton_dist.clustering.arrays import Centroids, Counts, Keys, StateOfRow
from retomaton_dist.clustering.assign import Cells, find_among_all
from retomaton_dist.clustering.draw import digests, drawn
from retomaton_dist.clustering.in_memory import split_cell
from retomaton_dist.clustering.lloyd import LloydProgress
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.shares import CellSplit, Shares

PLAIN_WORK = 10**12
PLAIN_STATES = 256


@dataclass(frozen=True)
class TwoLevel:
    """The settings of the two-level path."""

    probes: int = 4
    rows_per_state: int = 256
    split_iterations: int = 10


@dataclass(frozen=True)
class CellPlan:
    """Where the cells are and into how many states each is split."""

    centres: Centroids
    states: Counts


def wants_two_levels(rows: int, states: int, dimension: int, iterations: int) -> bool:
    """Choose the path: plain k-means while it takes about half a minute of one CPU core.

    Plain k-means is exact and takes rows x states x dimension multiplications per iteration, of
    which a core does some 5 x 10^10 a second. Below a few hundred states there is little to save.
    """
    return states > PLAIN_STATES and rows * states * dimension * iterations > PLAIN_WORK


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


def plan_cells(
    shares: Shares, states: int, settings: TwoLevel, seed: int, blocking: Blocking
) -> CellPlan:
    """Find the cells from a sample and apportion the states among them."""
    count = max(1, round(math.sqrt(states)))
    limit = count * settings.rows_per_state
    sample = shares.take(np.sort(drawn(shares.rows, limit, seed)))
    split = CellSplit(0, count, limit, settings.split_iterations, seed)
    centres = split_cell(sample, split, blocking)
    centres = centres[np.isfinite(centres).all(axis=1)]
    counts = shares.assign(centres, None).counts
    masses = _masses(counts, sample, find_among_all(centres, blocking)(sample).states)
    return CellPlan(centres, apportion(masses, states))


def _masses(counts: Counts, sample: Keys, cells: StateOfRow) -> Counts:
    """Weigh cells by their rows, discounted by how far the sample's rows in them are equal."""
    _, different = np.unique(digests(sample), return_index=True)
    seen = np.bincount(cells, minlength=len(counts))
    distinct = np.bincount(cells[different], minlength=len(counts))
    discounted = np.ceil(counts * (distinct / np.maximum(seen, 1))).astype(np.int64)
    return np.where(seen > 0, discounted, counts)


def split_cells(
    shares: Shares, plan: CellPlan, settings: TwoLevel, seed: int
) -> tuple[Cells, LloydProgress]:
    """CellSplit every cell on its own; the rows must be assigned to the plan's centres.

    Returns what Lloyd's iterations refine: the cells with their ranges of states, and the start.
    """
    splits = [
        CellSplit(cell, count, count * settings.rows_per_state, settings.split_iterations, seed)
        for cell, count in enumerate(plan.states.tolist())
        if count
    ]
    centroids = np.concatenate(shares.split(splits))
    offsets = np.concatenate([[0], np.cumsum(plan.states)])
    return Cells(plan.centres, offsets, settings.probes), LloydProgress(centroids)
