"""How many pairs of a row and a centre a k-means compares: what its time is estimated from."""

from dataclasses import dataclass

from retomaton_dist.clustering.samples import passes
from retomaton_dist.clustering.two_level import TwoLevel, cells_for, cells_have_cells
from retomaton_dist.stages.kmeans_recipe import Recipe


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
