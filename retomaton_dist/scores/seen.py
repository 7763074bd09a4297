"""What mixing reads of positions besides what a walk came to there: on disk or in memory."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.scores.reading import Reading

Numbers = NDArray[np.integer]


class Seen(Protocol):
    """Positions, row by row."""

    @property
    def temperatures(self) -> tuple[float, ...]:
        """Those that a walk's log-sums were taken for."""
        ...

    @property
    def reading(self) -> Reading:
        """What the LM said; queries may be missing if no mixing learned from them."""
        ...

    @property
    def log_lm(self) -> NDArray[np.float32]:
        """Log-probability of each row's token under the LM."""
        ...

    @property
    def entropy(self) -> NDArray[np.float32]:
        """Entropy of the LM's distribution."""
        ...

    @property
    def confidence(self) -> NDArray[np.float32]:
        """The LM's largest log-probability."""
        ...

    def since_restart(self, restarted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Steps since the last restart of the same document; 0 where it restarts."""
        ...


@dataclass(frozen=True)
class SeenRows:
    """Positions in memory; rows of a document follow each other.

    `carried` is, for every row, how many steps its document had gone since a restart when the
    first of its rows here came: 0 where documents are here from their start.
    """

    temperatures: tuple[float, ...]
    reading: Reading
    documents: Numbers
    carried: Numbers

    @property
    def log_lm(self) -> NDArray[np.float32]:
        """Log-probability of each row's token under the LM."""
        return self.reading.log_lm

    @property
    def entropy(self) -> NDArray[np.float32]:
        """Entropy of the LM's distribution."""
        return self.reading.entropy

    @property
    def confidence(self) -> NDArray[np.float32]:
        """The LM's largest log-probability."""
        return self.reading.confidence

    def since_restart(self, restarted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Steps since the last restart of the same document, also one before its rows here."""
        return steps_since(self.documents, restarted, self.carried)


def steps_since(
    documents: Numbers, restarted: NDArray[np.bool_], carried: Numbers | None = None
) -> NDArray[np.int64]:
    """Steps since the last restart of the same document; 0 where it restarts.

    Rows are in the order of the text. A document's first rows count from what they carry, or 0.
    """
    places = np.arange(len(documents))
    starts = np.concatenate([[True], documents[1:] != documents[:-1]])[: len(documents)]
    last = np.maximum.accumulate(np.where(restarted | starts, places, 0))
    steps: NDArray[np.int64] = places - last
    return steps if carried is None else steps + np.where(restarted[last], 0, carried)
