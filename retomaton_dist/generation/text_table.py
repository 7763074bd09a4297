"""What is known of texts that grow side by side, a row for each."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.mixture import Floats
from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.engine.walker import Rows
from retomaton_dist.generation.generator import Tokens


@dataclass(eq=False)
class TextTable:
    """Rows of texts: `tokens[i, :lengths[i]]` is what text i has so far.

    Its first `prompt_lengths[i]` tokens are given: while its prompt is read, tokens behind
    `lengths` are known, too. `scores` has what is known of tokens from number `scored_from[i]` on.
    `weights` are those of online mixing. `searched`, `matched` and `states` are what came of the
    last step of the walk, which has the place `slots[i]`. `owners` is what the caller put there.
    """

    tokens: Tokens
    lengths: Rows
    prompt_lengths: Rows
    scored_from: Rows
    scores: TokenScores
    weights: Floats
    searched: NDArray[np.bool_]
    matched: NDArray[np.int32]
    states: NDArray[np.int32]
    slots: Rows
    owners: NDArray[Any]

    @classmethod
    def begin(
        cls, prompts: Sequence[Tokens], lead: int, weights: Floats, slots: Rows, scored: bool
    ) -> "TextTable":
        """Texts that have the first `lead` tokens of their prompts; `scored`: so is the rest."""
        sizes, rows = np.array([len(prompt) for prompt in prompts]), len(prompts)
        tokens = np.zeros((rows, int(sizes.max()) + 1), np.int32)
        for row, prompt in zip(tokens, prompts, strict=True):
            row[: len(prompt)] = prompt
        return cls(
            tokens,
            np.full(rows, lead),
            sizes,
            np.full(rows, lead) if scored else sizes.copy(),
            TokenScores.empty(rows, 1),
            weights,
            np.zeros(rows, np.bool_),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            slots,
            np.arange(rows).astype(object),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def made(self) -> Rows:
        """How many tokens each text has beyond its prompt."""
        made: Rows = self.lengths - self.prompt_lengths
        return made

    def latest(self, rows: Rows) -> Tokens:
        """The latest tokens of texts; -1 where there is none yet."""
        latest = self.tokens[rows, self.lengths[rows] - 1]
        return np.where(self.lengths[rows] > 0, latest, np.int32(-1))

    def text(self, row: int) -> Tokens:
        """The tokens of a text so far."""
        return self.tokens[row, : self.lengths[row]]

    def scored(self, row: int) -> TokenScores:
        """What is known of a text's tokens so far."""
        return self.scores.at((row, slice(0, int(self.lengths[row] - self.scored_from[row]))))

    def append(self, rows: Rows, tokens: Tokens, **known: Any) -> None:
        """Let texts have one more token each, of which so much is known."""
        self._make_wide(int(self.lengths[rows].max()) + 1)
        self.tokens[rows, self.lengths[rows]] = tokens
        place = rows, self.lengths[rows] - self.scored_from[rows]
        self.scores.put(place, tokens=tokens, **known)
        self.lengths[rows] += 1

    def at(self, rows: Rows) -> "TextTable":
        """Some of the texts, in this order, with the same places of walks."""
        return replace(
            self, **{item.name: _at(getattr(self, item.name), rows) for item in fields(self)}
        )

    def join(self, others: "TextTable") -> None:
        """Have other texts behind these."""
        for item in fields(self):
            pair = getattr(self, item.name), getattr(others, item.name)
            setattr(self, item.name, _joined(*pair))

    def _make_wide(self, tokens: int) -> None:
        if tokens > self.tokens.shape[1]:
            self.tokens = _wide(self.tokens, 2 * tokens)
        scored = tokens - int(self.scored_from.min())
        if scored > self.scores.tokens.shape[1]:
            columns = self.scores.columns()
            self.scores = TokenScores(
                **{name: _wide(column, 2 * scored) for name, column in columns.items()}
            )


def _at(column: Any, rows: Rows) -> Any:
    return column.at(rows) if isinstance(column, TokenScores) else column[rows]


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, TokenScores):
        columns, others = first.columns(), second.columns()
        return TokenScores(**{name: _joined(columns[name], others[name]) for name in columns})
    if first.ndim == 2:
        width = max(first.shape[1], second.shape[1])
        first, second = _wide(first, width), _wide(second, width)
    return np.concatenate([first, second])


def _wide(column: NDArray[Any], width: int) -> NDArray[Any]:
    return np.pad(column, ((0, 0), (0, width - column.shape[1])))
