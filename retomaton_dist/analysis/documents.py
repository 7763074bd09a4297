"""Tokens cut into documents, as all of the analysis sees a text or a stretch of a corpus."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.corpus import Corpus


@dataclass(frozen=True)
class TokensByDocument:
    """Tokens, and where documents begin: document i is tokens[bounds[i]:bounds[i + 1]]."""

    tokens: NDArray[np.int32]
    bounds: NDArray[np.int64]

    @classmethod
    def of_stretch(cls, corpus: Corpus, first: int, last: int) -> "TokensByDocument":
        """The tokens first..last-1 of a corpus, prefixes too; documents at the ends are cut."""
        numbers = range(document_at(corpus, first), document_at(corpus, last - 1) + 1)
        chosen = np.arange(numbers.start, numbers.stop)
        firsts = corpus.first_entries[numbers.start : numbers.stop] + corpus.unpredicted * chosen
        bounds = np.append(np.maximum(firsts, first), last) - first
        return cls(corpus.tokens[first:last], bounds)

    @classmethod
    def of_documents(cls, corpus: Corpus, numbers: Sequence[int]) -> "TokensByDocument":
        """All tokens of some documents of a corpus, which take up memory."""
        chosen = np.asarray(numbers, np.int64)
        firsts = corpus.first_entries[chosen] + corpus.unpredicted * chosen
        lasts = firsts + corpus.lengths[chosen] + corpus.unpredicted
        parts = [corpus.tokens[a:b] for a, b in zip(firsts, lasts, strict=True)]
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

    def part(self, first: int, last: int) -> "TokensByDocument":
        """The places first..last-1 alone."""
        inner = self.bounds[(self.bounds > first) & (self.bounds < last)]
        bounds = np.concatenate([[first], inner, [last]]).astype(np.int64) - first
        return TokensByDocument(self.tokens[first:last], bounds)

    def numbers(self, first: int, last: int) -> NDArray[np.int64]:
        """The document of each of the places first..last-1."""
        return np.searchsorted(self.bounds[1:], np.arange(first, last), side="right")

    def room(self, first: int, last: int) -> NDArray[np.int64]:
        """Tokens from each of the places first..last-1 to the end of its document."""
        return self.bounds[1:][self.numbers(first, last)] - np.arange(first, last)

    def __len__(self) -> int:
        return len(self.tokens)


def document_at(corpus: Corpus, place: int) -> int:
    """Number of the document that a token of a corpus belongs to."""
    return bisect_right(range(len(corpus)), place, key=corpus.first_token) - 1
