"""Rows of two models side by side: one gives logits, the other queries.

Each has its own windows and cache, and reads the same inputs.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.lm.stepper import Rows
from retomaton_dist.lm.text_rows import GrowingRows, Stepped


class PairedRows:
    """The same rows as the LM and as the model of the keys read them: what `GrowingRows` can do."""

    def __init__(self, lm: GrowingRows, keys: GrowingRows) -> None:
        self._lm, self._keys = lm, keys

    def __len__(self) -> int:
        return len(self._lm)

    @property
    def lengths(self) -> Rows:
        """How many inputs each row has."""
        return self._lm.lengths

    def room(self) -> Rows:
        """How many inputs each row can grow by at once, in both models."""
        return np.minimum(self._lm.room(), self._keys.room())

    def extend(
        self,
        tokens: NDArray[np.int64],
        counts: Rows,
        rows: Rows | None = None,
        *,
        last_only: bool = False,
    ) -> Stepped:
        """Read the first `counts[i]` tokens of rows; see `GrowingRows`."""
        logits = self._lm.extend(tokens, counts, rows, last_only=last_only).logits
        return Stepped(self._keys.extend(tokens, counts, rows).queries, logits)

    def crop(self, lengths: Rows) -> None:
        """Take inputs back, none that an earlier `extend` gave: rows have so many then."""
        self._lm.crop(lengths)
        self._keys.crop(lengths)

    def select(self, rows: Rows) -> None:
        """Go on with these rows, in this order; one may be there several times."""
        self._lm.select(rows)
        self._keys.select(rows)

    def take(self, rows: Rows) -> "PairedRows":
        """These rows as rows of their own; they are still here, too."""
        return PairedRows(self._lm.take(rows), self._keys.take(rows))

    def join(self, others: "PairedRows") -> None:
        """Have rows from elsewhere go on behind these."""
        self._lm.join(others._lm)
        self._keys.join(others._keys)
