"""Reading texts that grow, row by row, token by token.

What it gives is what reading a finished text gives (`windows`): a position is read by the first
window that reaches it. So where a row's next position falls to the next window, the cache of that
row is made anew from the window's start.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.stepper import Rows, Stepper
from retomaton_dist.lm.windows import batches, document_windows, yielding_windows

Tokens = NDArray[np.int32]
Queries = NDArray[np.float16]

# Tokens of one forward pass over the beginnings of texts, and logits if all of them are wanted.
BATCH_TOKENS = 8192
BATCH_LOGITS = 1 << 27

WatchLogits = Callable[[int, int, Tensor], None]
"""Is given a row, a position of it, and the logits of the positions from there on."""


class Stepped(NamedTuple):
    """What new inputs gave: queries [rows, inputs, d] and logits [rows, inputs, vocabulary]."""

    queries: Queries
    logits: Tensor


class PromptOutput(NamedTuple):
    """What the beginnings of texts gave: queries by row, and the last positions' logits.

    Queries are those of the last position alone where no others were asked for.
    """

    queries: list[Queries]
    logits: Tensor


class GrowingRows:
    """Rows of a stepper: their inputs so far, where their windows start, and their cache.

    Without `queries` theirs have no columns: another model gives them.
    """

    def __init__(
        self, stepper: Stepper, documents: Sequence[Tokens], *, queries: bool = True
    ) -> None:
        self._stepper, self._columns = stepper, None if queries else 0
        self.lengths = np.array([len(document) for document in documents])
        self._inputs = np.zeros((len(documents), int(self.lengths.max())), np.int32)
        for row, document in zip(self._inputs, documents, strict=True):
            row[: len(document)] = document
        self._starts = self._windows(self.lengths - 1)
        self._cache = stepper.new_cache()

    def __len__(self) -> int:
        return len(self.lengths)

    def room(self) -> Rows:
        """How many inputs each row can grow by at once: until its next position's window ends."""
        room: Rows = self._windows(self.lengths) + self._stepper.context - self.lengths
        return room

    def read_beginnings(self, *, every_query: bool, watch: WatchLogits | None) -> PromptOutput:
        """Fill the cache with the last window of every row.

        `watch` sees the logits of all positions, each once.
        """
        sizes, most = self.lengths - self._starts, BATCH_TOKENS
        if watch is not None:
            most = max(1, min(most, BATCH_LOGITS // self._stepper.lm.vocabulary))
        queries: list[Queries] = [np.empty((0, 0), np.float16)] * len(self)
        logits: list[Tensor | None] = [None] * len(self)
        for group in batches(sizes.tolist(), most):
            rows = None if len(group) == len(self) else group
            order = np.arange(len(self)) if rows is None else group
            keys, made, last = self._beginnings(rows, order, sizes[order], watch is not None)
            for place, row in enumerate(order):
                first = 0 if every_query else sizes[row] - 1
                queries[row] = _rounded(keys[place, first : sizes[row]])
                logits[row] = made[place, last[place]].clone()
                if watch is not None:
                    fresh = self._fresh(row)
                    watch(row, self._starts[row] + fresh, made[place, fresh : sizes[row]])
        if every_query or watch is not None:
            for row in range(len(self)):
                before = self._earlier(row, watch)
                if every_query and before:
                    queries[row] = np.concatenate([*before, queries[row][self._fresh(row) :]])
        return PromptOutput(queries, torch.stack([row for row in logits if row is not None]))

    def extend(self, tokens: NDArray[np.int64], counts: Rows) -> Stepped:
        """Read the first `counts[row]` tokens of every row, 1 to `room()`; what pads is ignored."""
        before, most = self.lengths, tokens.shape[1]
        self.lengths = before + counts
        self._remember(tokens, counts, before)
        starts = self._windows(before)
        stays = starts == self._starts
        self._starts = starts
        if stays.all():
            keys, logits = self._read(None, tokens, before - starts, None)
            return Stepped(_rounded(keys), logits)
        return self._extend_apart(tokens, before, stays, most)

    def crop(self, lengths: Rows) -> None:
        """Take inputs back, none that an earlier `extend` gave: rows have so many then."""
        self.lengths = lengths.copy()

    def select(self, rows: Rows) -> None:
        """Go on with these rows, in this order; one may be there several times."""
        self.lengths, self._starts = self.lengths[rows], self._starts[rows]
        self._inputs = self._inputs[rows]
        self._cache.select(torch.from_numpy(rows))

    def _extend_apart(
        self, tokens: NDArray[np.int64], before: Rows, stays: NDArray[np.bool_], most: int
    ) -> Stepped:
        """Rows that go on, and those that begin their next windows: a pass for each kind."""
        keys: Tensor | None = None
        for rows in (np.flatnonzero(stays), np.flatnonzero(~stays)):
            if not len(rows):
                continue
            columns = before[rows] - self._starts[rows]
            if stays[rows[0]]:
                part = self._read(rows, tokens[rows], columns, None)
            else:
                part = self._next_window(rows, columns, most)
            if keys is None:
                shape = len(self), most
                keys = part[0].new_zeros((*shape, part[0].shape[-1]))
                logits = part[1].new_zeros((*shape, part[1].shape[-1]))
            keys[rows], logits[rows] = part
        assert keys is not None
        return Stepped(_rounded(keys), logits)

    def _next_window(self, rows: Rows, columns: Rows, most: int) -> tuple[Tensor, Tensor]:
        """Read the new windows of rows, all of which have as much before their next position."""
        base = int(columns[0])
        tokens = np.zeros((len(rows), base + most), np.int64)
        for place, row in enumerate(rows):
            known = self._inputs[row, self._starts[row] : self.lengths[row]]
            tokens[place, : len(known)] = known
        keys, logits = self._read(rows, tokens, np.zeros(len(rows), np.int64), most)
        return keys[:, base:], logits

    def _beginnings(
        self, rows: Rows | None, order: Rows, sizes: Rows, every_logit: bool
    ) -> tuple[Tensor, Tensor, Rows]:
        """Keys and logits of the last windows of rows, and which are those of the last positions.

        Other positions' logits are left out unless they are wanted.
        """
        tokens = np.zeros((len(order), int(sizes.max())), np.int64)
        for place, row in enumerate(order):
            tokens[place, : sizes[place]] = self._inputs[row, self._starts[row] : self.lengths[row]]
        ends, where = np.unique(sizes - 1, return_inverse=True)
        columns = np.zeros(len(order), np.int64)
        keys, logits = self._read(rows, tokens, columns, None if every_logit else ends)
        return keys, logits, sizes - 1 if every_logit else where

    def _fresh(self, row: int) -> int:
        """How many positions of a row's window an earlier one has yielded."""
        return self._stepper.context - self._stepper.stride if self._starts[row] else 0

    def _earlier(self, row: int, watch: WatchLogits | None) -> list[Queries]:
        """The queries of the positions that windows before a row's own yield."""
        stepper, start = self._stepper, int(self._starts[row])
        sizes, parts = (stepper.context, stepper.stride), []
        last = start + self._fresh(row)
        for window in document_windows(row, int(self.lengths[row]), *sizes, 0, last):
            inputs = self._inputs[row, window.start : window.last].astype(np.int64)
            ids = torch.from_numpy(inputs[None])
            if watch is None:
                keys = stepper.lm.keys(ids)
            else:
                keys, logits = stepper.lm.keys_and_logits(ids)
                watch(row, window.start + window.keep, logits[0, window.keep :])
            parts.append(_rounded(keys[0, window.keep :, : self._columns]))
        return parts

    def _read(
        self, rows: Rows | None, tokens: NDArray[np.int64], columns: Rows, keep: Rows | int | None
    ) -> tuple[Tensor, Tensor]:
        stepper = self._stepper
        chosen = self._cache, len(self), rows, tokens, columns, keep
        keys, logits = stepper.forward(*chosen, together=stepper.together)
        return keys[..., : self._columns], logits

    def _windows(self, positions: Rows) -> Rows:
        """Where the windows that yield these positions start."""
        context, stride = self._stepper.context, self._stepper.stride
        starts: Rows = yielding_windows(positions, context, stride) * stride
        return starts

    def _remember(self, tokens: NDArray[np.int64], counts: Rows, before: Rows) -> None:
        if self.lengths.max() > self._inputs.shape[1]:
            size = 2 * int(self.lengths.max())
            self._inputs = np.pad(self._inputs, ((0, 0), (0, size - self._inputs.shape[1])))
        rows, places = np.nonzero(np.arange(tokens.shape[1]) < counts[:, None])
        self._inputs[rows, before[rows] + places] = tokens[rows, places]


def _rounded(keys: Tensor) -> Queries:
    """Queries are rounded as keys are; ModelError where float16 cannot hold them."""
    queries: Queries = keys.to(torch.float16).cpu().numpy()
    if not np.isfinite(queries).all():
        raise ModelError(
            "a query is NaN or beyond float16's range (65,504), though no key of the store is: "
            "make the store with another --key, or leave that text out"
        )
    return queries
