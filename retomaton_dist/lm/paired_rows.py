"""Rows of two models side by side: one gives logits, the other queries; or of one that gives both.

Each has its own windows and cache, and reads the same inputs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.lm.stepper import Rows, Stepper
from retomaton_dist.lm.text_rows import GrowingRows, PromptOutput, Stepped, Tokens, WatchLogits


class PairedStepper(NamedTuple):
    """The LM, and the model that queries come from."""

    lm: Stepper
    keys: Stepper


class PairedRows:
    """Texts as both models read them: the interface of `GrowingRows`."""

    def __init__(self, stepper: PairedStepper, documents: Sequence[Tokens]) -> None:
        self._lm = GrowingRows(stepper.lm, documents, queries=False)
        self._keys = GrowingRows(stepper.keys, documents)

    def __len__(self) -> int:
        return len(self._lm)

    @property
    def lengths(self) -> Rows:
        """How many inputs each row has."""
        return self._lm.lengths

    def room(self) -> Rows:
        """How many inputs each row can grow by at once, in both models."""
        return np.minimum(self._lm.room(), self._keys.room())

    def read_beginnings(self, *, every_query: bool, watch: WatchLogits | None) -> PromptOutput:
        """Fill both caches; `watch` sees the LM's logits of all positions, each once."""
        read = self._lm.read_beginnings(every_query=False, watch=watch)
        queries = self._keys.read_beginnings(every_query=every_query, watch=None).queries
        return PromptOutput(queries, read.logits)

    def extend(self, tokens: NDArray[np.int64], counts: Rows) -> Stepped:
        """Read the first `counts[row]` tokens of every row, 1 to `room()`; what pads is ignored."""
        logits = self._lm.extend(tokens, counts).logits
        return Stepped(self._keys.extend(tokens, counts).queries, logits)

    def crop(self, lengths: Rows) -> None:
        """Take inputs back, none that an earlier `extend` gave: rows have so many then."""
        self._lm.crop(lengths)
        self._keys.crop(lengths)

    def select(self, rows: Rows) -> None:
        """Go on with these rows, in this order; one may be there several times."""
        self._lm.select(rows)
        self._keys.select(rows)


def begin(
    stepper: Stepper | PairedStepper,
    documents: Sequence[Tokens],
    *,
    every_query: bool,
    watch: WatchLogits | None = None,
) -> tuple[GrowingRows | PairedRows, PromptOutput]:
    """Read the inputs of documents, one or more each; return the rows that go on.

    `watch` sees the logits of all positions, each once.
    """
    rows: GrowingRows | PairedRows
    if isinstance(stepper, PairedStepper):
        rows = PairedRows(stepper, documents)
    else:
        rows = GrowingRows(stepper, documents)
    return rows, rows.read_beginnings(every_query=every_query, watch=watch)
