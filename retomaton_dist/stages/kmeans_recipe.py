"""Every setting of a k-means, with `auto` found out, and how much work that is."""

from dataclasses import dataclass

from retomaton_dist.clustering.samples import passes
from retomaton_dist.clustering.two_level import (
    TwoLevel,
    cells_for,
    cells_have_cells,
    wants_two_levels,
)
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import ClusterSettings
from retomaton_dist.storage.datastore import Shape

ENTRIES_PER_STATE = 100
SAMPLE_PER_STATE = 256
# Of multiplications, and of numbers that digests are compared of: a few seconds of one core.
ALONE_WORK = 10**11
ALONE_NUMBERS = 10**9
# Multiplications that a core does in some ten seconds: up to there, more rows cost nobody much.
SMALL_WORK = 2 * 10**11


@dataclass(frozen=True)
class Recipe:
    """What a k-means is made by; `two_level` says whether rows see cells or all states."""

    states: int
    iterations: int
    rows: int
    seed: int
    two_level: bool


def resolve(settings: ClusterSettings, shape: Shape) -> Recipe:
    """Fill in what is `auto` and refuse what does not fit so many entries."""
    entries = shape.entries
    count = max(1, entries // ENTRIES_PER_STATE) if settings.states is None else settings.states
    if count > entries:
        raise BadInput(f"--states {count}: choose from 1 to the number of entries, {entries:,}")
    rows = min(entries, settings.sample or _enough_rows(count, settings.iterations, shape))
    if rows < count:
        raise BadInput(f"--sample {rows}: fewer entries than the {count:,} states to learn")
    return recipe_of(count, settings.iterations, rows, settings.seed, shape.dimension)


def _enough_rows(states: int, iterations: int, shape: Shape) -> int:
    """Rows to learn from: some per state, and more (inertia falls by 1 %) while that is quick."""
    quick = SMALL_WORK // (states * iterations * shape.dimension)
    return max(SAMPLE_PER_STATE * states, quick)


def recipe_of(states: int, iterations: int, rows: int, seed: int, dimension: int) -> Recipe:
    """Choose the path for so many states, learnt from `rows` entries."""
    return Recipe(
        states, iterations, rows, seed, wants_two_levels(rows, states, dimension, iterations)
    )


def recipe_of_cells(recipe: Recipe, dimension: int) -> Recipe:
    """How the cells of a k-means are found: by one of fewer states, from fewer rows."""
    settings, count = TwoLevel(), cells_for(recipe.states)
    rows = min(recipe.rows, count * settings.rows_per_state)
    if not cells_have_cells(recipe.states):
        return Recipe(count, settings.split_iterations, rows, recipe.seed, two_level=False)
    return recipe_of(count, settings.split_iterations, rows, recipe.seed, dimension)


def is_for_one(recipe: Recipe, shape: Shape) -> bool:
    """Whether one worker is done with a k-means before several would have begun."""
    work = recipe.rows * recipe.states * recipe.iterations * shape.dimension
    small = work <= ALONE_WORK and shape.entries * shape.dimension <= ALONE_NUMBERS
    return small and not recipe.two_level


@dataclass(frozen=True)
class KmeansSizes:
    """A k-means: K states learned from so many rows; `plain` compares a row with all of them."""

    states: int
    rows: int
    iterations: int
    plain: bool

    @classmethod
    def of(cls, recipe: Recipe) -> "KmeansSizes":
        """The sizes of a recipe."""
        return cls(recipe.states, recipe.rows, recipe.iterations, not recipe.two_level)

    @property
    def per_row(self) -> float:
        """States that a row is compared with, and cells to find those."""
        return float(self.states) if self.plain else _compared_in_cells(self.states)

    @property
    def passes(self) -> float:
        """How often all iterations together see every row."""
        return passes(self.rows, self.states, self.iterations)

    @property
    def pairs(self) -> float:
        """Pairs of a row and a centre that the training compares."""
        refining = self.rows * self.passes * self.per_row
        return refining if self.plain else refining + self._starting

    @property
    def _starting(self) -> float:
        """The same for the first centroids: finding cells, seeing them, and splitting them."""
        settings, deep = TwoLevel(), cells_have_cells(self.states)
        cells, each = cells_for(self.states), settings.split_iterations
        found = KmeansSizes(
            cells, min(self.rows, settings.rows_per_state * cells), each, plain=not deep
        )
        split = min(self.rows, settings.rows_per_state * self.states)
        branch = max(1, self.states // cells)
        splitting = split * branch * passes(max(1, split // cells), branch, each)
        return found.pairs + self.rows * found.per_row + splitting


def _compared_in_cells(states: int) -> float:
    """Centres that a row is compared with on its way through cells, level by level."""
    cells = cells_for(states)
    above = _compared_in_cells(cells) if cells_have_cells(states) else float(cells)
    return above + TwoLevel().probes * states / cells
