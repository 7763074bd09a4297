"""Tokens cut into documents, as all of the analysis sees a text or a corpus."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.corpus import Corpus


@dataclass(frozen=True)
class TokensByDocument:
    """Tokens, and where documents begin: document i is tokens[bounds[i]:bounds[i + 1]]."""

    tokens: NDArray[np.int32]
    bounds: NDArray[np.int64]

    @classmethod
    def of_corpus(cls, corpus: Corpus) -> "TokensByDocument":
        """All tokens of a corpus, those that are read but never predicted included."""
        firsts = corpus.first_entries + corpus.lead * np.arange(len(corpus))
        return cls(corpus.tokens, np.append(firsts, len(corpus.tokens)))

    @classmethod
    def of_documents(cls, corpus: Corpus, numbers: Sequence[int]) -> "TokensByDocument":
        """All tokens of some documents of a corpus, which take up memory."""
        whole = cls.of_corpus(corpus)
        chosen = np.asarray(numbers, np.int64)
        firsts, lasts = whole.bounds[chosen], whole.bounds[chosen + 1]
        parts = [whole.tokens[a:b] for a, b in zip(firsts, lasts, strict=True)]
        bounds = np.concatenate([[0], np.cumsum(lasts - firsts)]).astype(np.int64)
        return cls(np.concatenate([np.empty(0, np.int32), *parts]), bounds)

    @classmethod
    def of_rows(
        cls,
        document: NDArray[np.int32],
        position: NDArray[np.int32],
        token: NDArray[np.int32],
    ) -> "TokensByDocument":
        """Evaluated rows, in order; where positions were left out, another document begins."""
        cuts = (np.diff(document) != 0) | (np.diff(position) != 1)
        inner = np.flatnonzero(cuts) + 1
        return cls(token, np.concatenate([[0], inner, [len(token)]]).astype(np.int64))

    def numbers(self, first: int, last: int) -> NDArray[np.int64]:
        """The document of each of the places first..last-1."""
        return np.searchsorted(self.bounds[1:], np.arange(first, last), side="right")

    def room(self, first: int, last: int) -> NDArray[np.int64]:
        """Tokens from each of the places first..last-1 to the end of its document."""
        places = np.arange(first, last)
        ends = self.bounds[1:]
        return ends[np.searchsorted(ends, places, side="right")] - places

    def __len__(self) -> int:
        return len(self.tokens)
