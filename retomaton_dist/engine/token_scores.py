"""Tokens of texts with what is known of each: what scoring and generation give back."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Place = int | slice | NDArray[np.int64] | tuple[Any, ...]


@dataclass(frozen=True)
class TokenScores:
    """Token by token; logarithms are natural, of the mixture and of the LM alone.

    Of generated tokens they are those before any temperature, cut or penalty. `searched` says
    where the walk searched, `matched` is the length of the suffix that it restarted by (0: none),
    `states` in how many states it was, `accepted` which tokens were drafted.
    """

    tokens: NDArray[np.int32]
    log_p: NDArray[np.float64]
    log_lm: NDArray[np.float64]
    searched: NDArray[np.bool_]
    matched: NDArray[np.int32]
    states: NDArray[np.int32]
    accepted: NDArray[np.bool_]

    @classmethod
    def empty(cls, *shape: int) -> "TokenScores":
        """Room for so many tokens, or for so many texts of so many tokens."""
        tokens, matched, states = (np.zeros(shape, np.int32) for _ in range(3))
        searched, accepted = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        return cls(tokens, np.zeros(shape), np.zeros(shape), searched, matched, states, accepted)

    def at(self, place: Place) -> "TokenScores":
        """A copy of some of them."""
        return TokenScores(
            **{name: column[place].copy() for name, column in self.columns().items()}
        )

    def put(self, place: Place, **columns: Any) -> None:
        """Write down what is known of some tokens."""
        for name, values in columns.items():
            getattr(self, name)[place] = values

    def append(self, **columns: Any) -> "TokenScores":
        """The same with one more token."""
        own = self.columns()
        return TokenScores(**{name: np.append(own[name], columns[name]) for name in own})

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by their names."""
        return {name: getattr(self, name) for name in TokenScores.__dataclass_fields__}

    @property
    def total(self) -> float:
        """Log-probability of the whole text."""
        return float(self.log_p.sum())

    @property
    def perplexity(self) -> float:
        """Per token."""
        return math.exp(-float(self.log_p.mean()))

    @property
    def perplexity_of_lm(self) -> float:
        """The same of the LM alone."""
        return math.exp(-float(self.log_lm.mean()))

    @property
    def foss(self) -> float:
        """Fraction of saved searches."""
        return 1 - float(self.searched.mean())
