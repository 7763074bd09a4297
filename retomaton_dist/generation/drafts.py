"""What drafts are to decoding: tokens that may come next, from whoever guesses them.

Drafts change how fast a text comes, never which: every token is drawn from the mixture, and one
that was drafted stands only if it was drawn.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.lanes import Lanes

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class TextStanding:
    """Where texts stand when drafts are made: a row per text that is not finished.

    `texts[i, :lengths[i]]` are a text's tokens from its first on, prompt included; the last one
    was just drawn. `lanes` has the candidates that it was drawn with, at lane `lane_of[i]`.
    A candidate whose value is that token leads on: its entry's successors are what the corpus
    says next. Without a walk (the method `lm`) there are no lanes. No more than `room[i]` tokens
    can be drafted for row i. Nothing here may be altered.
    """

    lanes: Lanes | None
    lane_of: Rows
    texts: NDArray[np.int32]
    lengths: Rows
    room: Rows


@dataclass(frozen=True)
class Verified:
    """What came of drafts: by row how many tokens were drafted, and how many of these stood.

    `drawn` is the token that each row got first, drafted or not. `seconds` is what the forward
    pass took that verified them, `rest` what all else of the step did (the walk, searches,
    drawing), and `width` the most inputs of a row in that pass.
    """

    drafted: Rows
    accepted: Rows
    drawn: NDArray[np.int32]
    width: int
    seconds: float
    rest: float


@runtime_checkable
class DraftSource(Protocol):
    """Guesses what comes next, and learns how good it was."""

    def draft(self, standing: TextStanding) -> NDArray[np.int32]:
        """Tokens [rows, most] that may follow each row; -1 behind the last one, or in all."""
        ...

    def learn(self, verified: Verified) -> None:
        """Take note of what came of the last drafts; also called where there were none."""
        ...
