"""A cache of a model's keys and values whose rows have lengths of their own.

Column c of a row is position c of its window, in every row: so nothing needs to be moved when
rows grow by different numbers of tokens, or when some of them are taken back.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

LEAST_COLUMNS = 64


class CachePlace:
    """Where the next forward pass writes: which rows (None: all), from which column on each."""

    def __init__(self) -> None:
        self.rows: Tensor | None = None
        self.columns = torch.zeros((0, 0), dtype=torch.int64)
        self.first: int | None = 0
        self.width = 0
        self.height = 0

    def choose(self, height: int, rows: Tensor | None, columns: Tensor, tokens: int) -> None:
        """Have row `rows[i]` of `height` be written from column `columns[i]` on."""
        low, high = int(columns.min()), int(columns.max())
        self.height, self.rows = height, rows
        self.columns = columns[:, None] + torch.arange(tokens)
        self.first = low if low == high else None
        self.width = high + tokens


class RowLayer(CacheLayerMixin):  # type: ignore[misc] # transformers has no types
    """What one layer keeps: [rows, heads, columns, width] of keys, and as much of values.

    A head's columns lie together: that is how attention reads them.
    """

    is_sliding = False

    def __init__(self, place: CachePlace) -> None:
        super().__init__()
        self.place = place

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Make room for as many rows as there are; columns come as they are needed."""
        self.keys, self.values = (
            states.new_zeros((self.place.height, states.shape[1], 0, states.shape[3]))
            for states in (key_states, value_states)
        )
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the new states, and return all that the rows of this pass have."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys = _with_columns(self.keys, self.place.width)
        self.values = _with_columns(self.values, self.place.width)
        return self._written(self.keys, key_states), self._written(self.values, value_states)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in this order; one may be there several times."""
        if self.is_initialized:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def take(self, layer: "RowLayer", rows: Tensor) -> None:
        """Have these rows of another layer, and no others."""
        if layer.is_initialized:
            self.keys, self.values = layer.keys[rows], layer.values[rows]
            self.is_initialized = True

    def join(self, layer: "RowLayer") -> None:
        """Have the rows of another layer behind the own ones."""
        columns = max(self.keys.shape[2], layer.keys.shape[2])
        self.keys, self.values = (
            torch.cat([_with_columns(kept, columns) for kept in pair])
            for pair in ((self.keys, layer.keys), (self.values, layer.values))
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002 - the contract's
        """Columns that are read, and the first of them."""
        return self.place.width, 0

    def get_seq_length(self) -> int:
        """Columns before this pass; there is no one number where rows differ."""
        return self.place.width - self.place.columns.shape[1]

    def get_max_length(self) -> int:
        """There is no limit."""
        return -1

    def _written(self, kept: Tensor, states: Tensor) -> Tensor:
        place, tokens = self.place, states.shape[2]
        rows = slice(None) if place.rows is None else place.rows
        if place.first is not None:
            kept[rows, :, place.first : place.first + tokens] = states
        else:
            numbers = torch.arange(len(kept)) if place.rows is None else place.rows
            places = numbers[:, None].to(kept.device), place.columns.to(kept.device)
            kept[places[0], :, places[1]] = states.transpose(1, 2)
        return kept[rows, :, : place.width]


class RowCache(Cache):  # type: ignore[misc] # transformers has no types
    """The layers of a model, and the place that all of them write to."""

    def __init__(self, layers: int) -> None:
        self.place = CachePlace()
        super().__init__(layers=[RowLayer(self.place) for _ in range(layers)])

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in this order."""
        for layer in self.layers:
            layer.select(rows)

    def take(self, rows: Tensor) -> "RowCache":
        """A cache that has these rows alone."""
        taken = RowCache(len(self.layers))
        for layer, own in zip(taken.layers, self.layers, strict=True):
            layer.take(own, rows)
        return taken

    def join(self, other: "RowCache") -> None:
        """Have the rows of another cache, in which something was written, behind the own ones."""
        for layer, more in zip(self.layers, other.layers, strict=True):
            layer.join(more)


def _with_columns(kept: Tensor, columns: int) -> Tensor:
    """The same with room for so many columns at least."""
    rows, heads, room, width = kept.shape
    if room >= columns:
        return kept
    size = max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())
    made = kept.new_zeros((rows, heads, size, width))
    made[:, :, :room] = kept
    return made
