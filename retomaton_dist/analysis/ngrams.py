"""Which n-grams of a text appear in a corpus. The corpus is streamed; memory grows with the text.

An n-gram never crosses the end of a document, in the text or in the corpus. It is known by a hash
of 64 bits. That two different ones share a hash happens about once in 2^64 pairs: a million n-grams
of a text meet a false one among 10^9 of a corpus with odds of 1 : 18,000.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.documents import TokensByDocument
from storage.canonical import Json

Hashes = NDArray[np.uint64]

LONGEST = 10
BLOCK_TOKENS = 1 << 18
# Share of the filter's places that are free: how rarely a foreign n-gram is looked up in vain.
_FILTER_SPACE = 16
# Odd constants of splitmix64.
_LEFT = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class Overlap:
    """What a text shares with a corpus.

    `counts`, for n = 1..LONGEST: how many n-grams the text has, and how many of them the corpus
    has; `types` counts every n-gram once, `occurrences` as often as the text has it. `matched` is
    the length of the longest n-gram, LONGEST at most, that ends with each token and that the
    corpus has.
    """

    counts: list[Json]
    matched: NDArray[np.int32]


def overlap(text: TokensByDocument, corpus: TokensByDocument) -> Overlap:
    """Look for all n-grams of a text, one length after the other."""
    counts, matched = [], np.zeros(len(text), np.int32)
    for n in range(1, LONGEST + 1):
        starts, sought = _seek(text, corpus, n)
        met = sought.met[sought.kinds]
        counts.append(_counted(n, sought, met))
        # Whoever ends a longer one that the corpus has, ends a shorter one, too.
        matched[starts[met] + n - 1] += 1
    return Overlap(counts, matched)


def seen(text: TokensByDocument, corpus: TokensByDocument, n: int) -> NDArray[np.bool_]:
    """Say for each token of the text whether the n-gram it begins appears in the corpus.

    False where the document ends before an n-gram is whole.
    """
    starts, sought = _seek(text, corpus, n)
    result = np.zeros(len(text), np.bool_)
    result[starts] = sought.met[sought.kinds]
    return result


def corpus_grams(corpus: TokensByDocument, n: int) -> Iterator[tuple[NDArray[np.int64], Hashes]]:
    """Places and hashes of the corpus's n-grams, block by block."""
    for first in range(0, len(corpus), BLOCK_TOKENS):
        hashes = gram_hashes(corpus.tokens[first : first + BLOCK_TOKENS + n - 1], n)
        whole = np.flatnonzero(corpus.room(first, first + len(hashes)) >= n)
        yield whole + first, hashes[whole]


class Sought:
    """N-grams that are looked for: `types` (sorted), `kinds` (the type of each), which were met."""

    def __init__(self, hashes: Hashes) -> None:
        self.types, self.kinds = np.unique(hashes, return_inverse=True)
        self.met = np.zeros(len(self.types), np.bool_)
        bits = max(1, (_FILTER_SPACE * len(self.types)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._possible = np.zeros(1 << bits, np.bool_)
        self._possible[self.types >> self._shift] = True

    def find(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Those among `hashes` that are looked for: their numbers, and the types they are."""
        likely = np.flatnonzero(self._possible[hashes >> self._shift])
        types = np.searchsorted(self.types, hashes[likely])
        types[types == len(self.types)] = 0
        right = self.types[types] == hashes[likely] if len(likely) else np.zeros(0, np.bool_)
        return likely[right], types[right]


def _seek(
    text: TokensByDocument, corpus: TokensByDocument, n: int
) -> tuple[NDArray[np.int64], Sought]:
    hashes = gram_hashes(text.tokens, n)
    starts = np.flatnonzero(text.room(0, len(hashes)) >= n)
    sought = Sought(hashes[starts])
    for _, others in corpus_grams(corpus, n):
        sought.met[sought.find(others)[1]] = True
    return starts, sought


def _counted(n: int, sought: Sought, met: NDArray[np.bool_]) -> Json:
    return {
        "n": n,
        "types": len(sought.types),
        "types_seen": int(sought.met.sum()),
        "occurrences": len(met),
        "occurrences_seen": int(met.sum()),
    }


def gram_hashes(tokens: NDArray[np.int32], n: int) -> Hashes:
    """Hash of the n tokens from each place on, as many as there are whole n-grams."""

    @cache
    def hashes(length: int) -> Hashes:
        if length == 1:
            return mixed(tokens.astype(np.uint64) + _LEFT)
        half = length // 2
        count = max(0, len(tokens) - length + 1)
        return mixed(hashes(half)[:count] * _LEFT + hashes(length - half)[half : half + count])

    return hashes(n)


def mixed(values: Hashes) -> Hashes:
    """The values, each of whose bits now depends on all; they are changed in place."""
    # Between two halves, or a sum of products would be the same for other tokens far too often.
    values ^= values >> np.uint64(30)
    values *= _FIRST
    values ^= values >> np.uint64(27)
    values *= _SECOND
    values ^= values >> np.uint64(31)
    return values
