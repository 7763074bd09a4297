"""What a corpus says about its tokens: how often each occurs, and how many ways it goes on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.corpus import Corpus

# Entries that are counted at once.
BLOCK = 1 << 22


@dataclass(frozen=True)
class TokenStatistics:
    """By token: log(1 + how often the corpus has it), log(1 + how many tokens follow it).

    The last row is a document's start.
    """

    frequencies: NDArray[np.float32]
    fertilities: NDArray[np.float32]

    @classmethod
    def of_corpus(cls, corpus: Corpus, vocabulary: int) -> "TokenStatistics":
        """Count a corpus whose tokens are below `vocabulary`.

        Read block by block; in memory are the distinct pairs of neighbours.
        """
        counts = np.zeros(vocabulary + 1, np.int64)
        pairs = np.empty(0, np.int64)
        for first in range(0, corpus.entries, BLOCK):
            last = min(first + BLOCK, corpus.entries)
            before, after = _neighbours(corpus, first, last, vocabulary)
            counts += np.bincount(before, minlength=vocabulary + 1)
            pairs = np.union1d(pairs, before * (vocabulary + 1) + after)
        ways = np.bincount(pairs // (vocabulary + 1), minlength=vocabulary + 1)
        return cls(np.log1p(counts).astype(np.float32), np.log1p(ways).astype(np.float32))

    def of(self, previous: NDArray[np.int32]) -> NDArray[np.float32]:
        """Both numbers for the tokens before: [rows, 2]; -1 is a document's start."""
        return np.stack([self.frequencies[previous], self.fertilities[previous]], axis=1)


def _neighbours(
    corpus: Corpus, first: int, last: int, start: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The token before each entry (`start` for a document's first) and its value."""
    head = 1 if first else 0
    values = corpus.values(first - head, last).astype(np.int64)
    before = values[:-1] if head else np.concatenate([[start], values[:-1]])
    begins = np.asarray(corpus.first_entries)
    inside = begins[(begins >= first) & (begins < last)] - first
    before = before.copy()
    before[inside] = start
    return before, values[head:]
