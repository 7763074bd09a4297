"""Reading texts that grow, row by row, token by token.

What it gives is what reading a finished text gives (`windows`): a position is read by the first
window that reaches it. So where a row's next position falls to the next window, the cache of that
row is made anew from the window's start.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.stepper import Rows, Stepper
from retomaton_dist.lm.windows import yielding_windows

Queries = NDArray[np.float16]


class Stepped(NamedTuple):
    """What new inputs gave: queries [rows, inputs, d] and logits [rows, inputs, vocabulary].

    Where only the last input's logits were asked for, that is the one input of `logits`.
    """

    queries: Queries
    logits: Tensor


class GrowingRows:
    """Rows of a stepper: their inputs so far, where their windows start, and their cache.

    They begin without inputs. Rows may leave (`select`) and come from elsewhere (`join`).
    """

    def __init__(self, stepper: Stepper, rows: int) -> None:
        self._stepper = stepper
        self.lengths = np.zeros(rows, np.int64)
        self._inputs = np.zeros((rows, 0), np.int32)
        self._starts = np.zeros(rows, np.int64)
        self._cache = stepper.new_cache()

    def __len__(self) -> int:
        return len(self.lengths)

    def room(self) -> Rows:
        """How many inputs each row can grow by at once: until its next position's window ends."""
        room: Rows = self._windows(self.lengths) + self._stepper.context - self.lengths
        return room

    def extend(
        self,
        tokens: NDArray[np.int64],
        counts: Rows,
        rows: Rows | None = None,
        *,
        last_only: bool = False,
    ) -> Stepped:
        """Read the first `counts[i]` tokens of rows (None: all), 1 to `room()` of each.

        What pads is ignored. With `last_only` there are logits of each row's last input alone.
        """
        chosen = np.arange(len(self)) if rows is None or len(rows) == len(self) else rows
        before = self.lengths[chosen]
        self.lengths[chosen] = before + counts
        self._remember(chosen, tokens, counts, before)
        starts = self._windows(before)
        stays = starts == self._starts[chosen]
        self._starts[chosen] = starts
        ends = counts - 1 if last_only else None
        if stays.all():
            whole = None if len(chosen) == len(self) else chosen
            keys, logits = self._read(whole, tokens, before - starts, ends)
            return Stepped(_rounded(keys), logits)
        return self._extend_apart(chosen, tokens, before - starts, stays, ends)

    def crop(self, lengths: Rows) -> None:
        """Take inputs back, none that an earlier `extend` gave: rows have so many then."""
        self.lengths = lengths.copy()

    def select(self, rows: Rows) -> None:
        """Go on with these rows, in this order; one may be there several times."""
        self.lengths, self._starts = self.lengths[rows], self._starts[rows]
        self._inputs = self._inputs[rows]
        self._cache.select(torch.from_numpy(rows))

    def take(self, rows: Rows) -> "GrowingRows":
        """These rows as rows of their own; they are still here, too."""
        taken = GrowingRows(self._stepper, 0)
        taken.lengths, taken._starts = self.lengths[rows], self._starts[rows]
        taken._inputs = self._inputs[rows]
        taken._cache = self._cache.take(torch.from_numpy(rows))
        return taken

    def join(self, others: "GrowingRows") -> None:
        """Have rows from elsewhere go on behind these."""
        self.lengths = np.concatenate([self.lengths, others.lengths])
        self._starts = np.concatenate([self._starts, others._starts])
        width = max(self._inputs.shape[1], others._inputs.shape[1])
        self._inputs = np.concatenate([_wide(rows._inputs, width) for rows in (self, others)])
        self._cache.join(others._cache)

    def _extend_apart(
        self,
        rows: Rows,
        tokens: NDArray[np.int64],
        columns: Rows,
        stays: NDArray[np.bool_],
        ends: Rows | None,
    ) -> Stepped:
        """Rows that go on, and those that begin their next windows: a pass for each kind."""
        keys: Tensor | None = None
        for places in (np.flatnonzero(stays), np.flatnonzero(~stays)):
            if not len(places):
                continue
            last = None if ends is None else ends[places]
            if stays[places[0]]:
                part = self._read(rows[places], tokens[places], columns[places], last)
            else:
                part = self._next_window(rows[places], int(columns[places[0]]), tokens, last)
            if keys is None:
                keys = part[0].new_zeros((*tokens.shape, part[0].shape[-1]))
                logits = part[1].new_zeros((len(rows), *part[1].shape[1:]))
            keys[places], logits[places] = part
        assert keys is not None
        return Stepped(_rounded(keys), logits)

    def _next_window(
        self, rows: Rows, base: int, tokens: NDArray[np.int64], ends: Rows | None
    ) -> tuple[Tensor, Tensor]:
        """Read the new windows of rows, all of which have `base` inputs before the next one."""
        whole = np.zeros((len(rows), base + tokens.shape[1]), np.int64)
        for place, row in enumerate(rows):
            known = self._inputs[row, self._starts[row] : self.lengths[row]]
            whole[place, : len(known)] = known
        keep = tokens.shape[1] if ends is None else base + ends
        keys, logits = self._read(rows, whole, np.zeros(len(rows), np.int64), keep)
        return keys[:, base:], logits

    def _read(
        self,
        rows: Rows | None,
        tokens: NDArray[np.int64],
        columns: Rows,
        keep: Rows | int | None,
    ) -> tuple[Tensor, Tensor]:
        """Keys of all inputs, and logits: of all (None), of the last so many, or of one per row."""
        stepper = self._stepper
        passed = self._cache, len(self), rows, tokens, columns
        if not isinstance(keep, np.ndarray):
            return stepper.forward(*passed, keep, together=stepper.together)
        ends, where = np.unique(keep, return_inverse=True)
        keys, logits = stepper.forward(*passed, ends, together=stepper.together)
        return keys, logits[torch.arange(len(keep)), torch.from_numpy(where)][:, None]

    def _windows(self, positions: Rows) -> Rows:
        """Where the windows that yield these positions start."""
        context, stride = self._stepper.context, self._stepper.stride
        starts: Rows = yielding_windows(positions, context, stride) * stride
        return starts

    def _remember(
        self, chosen: Rows, tokens: NDArray[np.int64], counts: Rows, before: Rows
    ) -> None:
        if self.lengths.max() > self._inputs.shape[1]:
            self._inputs = _wide(self._inputs, 2 * int(self.lengths.max()))
        rows, places = np.nonzero(np.arange(tokens.shape[1]) < counts[:, None])
        self._inputs[chosen[rows], before[rows] + places] = tokens[rows, places]


def _wide(inputs: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    return np.pad(inputs, ((0, 0), (0, width - inputs.shape[1])))


def _rounded(keys: Tensor) -> Queries:
    """Queries are rounded as keys are; ModelError where float16 cannot hold them."""
    queries: Queries = keys.to(torch.float16).cpu().numpy()
    if not np.isfinite(queries).all():
        raise ModelError(
            "a query is NaN or beyond float16's range (65,504), though no key of the store is: "
            "make the store with another --key, or leave that text out"
        )
    return queries
