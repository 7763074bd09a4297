"""How a k-means is done: every `auto` found out, how many cells there are, and how much work it is.

With so many states that rows cannot be compared with all of them, cells are found first, from a
sample, by a k-means of their own, which may have cells itself. Each is split on its own into a
number of states in proportion to what its rows lie apart: so all states end with about the same
share of the inertia. Lloyd's iterations over all rows then refine the whole, each row being
compared only with the states of the few cells nearest to it.

Up to MANY_STATES there are about 2 sqrt(K) cells: a row is compared with 5 sqrt(K) centroids
instead of K. Beyond, cells have about CELL_STATES states each, so that this work no longer grows
with K. Fewer, larger cells take longer and are hardly better (docs/explanation/algorithm.md).
"""

import math
from dataclasses import dataclass

from retomaton_dist.clustering.samples import passes
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import ClusterSettings
from retomaton_dist.storage.datastore import Shape

ENTRIES_PER_STATE = 100
# That states, or cells, are learnt from.
ROWS_PER_STATE = 256
# Multiplications that a core does in some ten seconds: up to there, more rows cost nobody much.
SMALL_WORK = 2 * 10**11
# Of multiplications, and of numbers that digests are compared of: a few seconds of one core.
ALONE_WORK = 10**11
ALONE_NUMBERS = 10**9
PLAIN_WORK = 10**12
PLAIN_STATES = 256
MANY_STATES = 30_000
CELLS_PER_ROOT = 2
CELL_STATES = 100
# Cells that a row sees.
PROBES = 6
# That find cells, and that split each of them.
SPLIT_ITERATIONS = 3
LEVEL_NAMES = {1: "plain", 2: "two-level", 3: "three-level", 4: "four-level", 5: "five-level"}


@dataclass(frozen=True)
class Recipe:
    """What a k-means is made by; `two_level` says whether rows see cells or all states."""

    states: int
    iterations: int
    rows: int
    seed: int
    two_level: bool

    @property
    def passes(self) -> float:
        """How often all iterations together see every row."""
        return passes(self.rows, self.states, self.iterations)

    @property
    def per_row(self) -> float:
        """Centres that a row is compared with: states, and cells to find those."""
        return _compared_in_cells(self.states) if self.two_level else float(self.states)

    @property
    def pairs(self) -> float:
        """Pairs of a row and a centre that the training compares."""
        refining = self.rows * self.passes * self.per_row
        if not self.two_level:
            return refining
        cells, each = cells_for(self.states), SPLIT_ITERATIONS
        rows, deep = min(self.rows, ROWS_PER_STATE * cells), cells_have_cells(self.states)
        finding = Recipe(cells, each, rows, self.seed, two_level=deep)
        split = min(self.rows, ROWS_PER_STATE * self.states)
        branch = max(1, self.states // cells)
        splitting = split * branch * passes(max(1, split // cells), branch, each)
        return refining + finding.pairs + self.rows * finding.per_row + splitting


def resolve(settings: ClusterSettings, shape: Shape) -> Recipe:
    """Fill in what is `auto` and refuse what does not fit so many entries.

    States are learnt from some rows each, and from more (inertia falls by 1 %) while that is quick.
    """
    entries, iterations = shape.entries, settings.iterations
    count = max(1, entries // ENTRIES_PER_STATE) if settings.states is None else settings.states
    if count > entries:
        raise BadInput(f"--states {count}: choose from 1 to the number of entries, {entries:,}")
    quick = SMALL_WORK // (count * iterations * shape.dimension)
    rows = min(entries, settings.sample or max(ROWS_PER_STATE * count, quick))
    if rows < count:
        raise BadInput(f"--sample {rows}: fewer entries than the {count:,} states to learn")
    return recipe_of(count, iterations, rows, settings.seed, shape.dimension)


def recipe_of(states: int, iterations: int, rows: int, seed: int, dimension: int) -> Recipe:
    """Choose the path for so many states, learnt from `rows` entries."""
    two_level = wants_two_levels(rows, states, dimension, iterations)
    return Recipe(states, iterations, rows, seed, two_level)


def recipe_of_cells(recipe: Recipe, dimension: int) -> Recipe:
    """How the cells of a k-means are found: by one of fewer states, from fewer rows."""
    count = cells_for(recipe.states)
    rows = min(recipe.rows, count * ROWS_PER_STATE)
    if not cells_have_cells(recipe.states):
        return Recipe(count, SPLIT_ITERATIONS, rows, recipe.seed, two_level=False)
    return recipe_of(count, SPLIT_ITERATIONS, rows, recipe.seed, dimension)


def is_for_one(recipe: Recipe, shape: Shape) -> bool:
    """Whether one worker is done with a k-means before several would have begun."""
    work = recipe.rows * recipe.states * recipe.iterations * shape.dimension
    small = work <= ALONE_WORK and shape.entries * shape.dimension <= ALONE_NUMBERS
    return small and not recipe.two_level


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


def _compared_in_cells(states: int) -> float:
    """Centres that a row is compared with on its way through cells, level by level."""
    cells = cells_for(states)
    above = _compared_in_cells(cells) if cells_have_cells(states) else float(cells)
    return above + PROBES * states / cells
