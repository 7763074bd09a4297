"""What a corpus says about its tokens: how often each occurs, and how many ways it goes on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.corpus import Corpus

Counts = NDArray[np.int64]
Pairs = NDArray[np.int64]
"""Distinct pairs of a token and the one after it, ascending: before x (vocabulary + 1) + after."""

# Entries that are counted at once, and pairs that are joined at once.
BLOCK = 1 << 20


@dataclass(frozen=True)
class TokenStatistics:
    """By token: log(1 + how often the corpus has it), log(1 + how many tokens follow it).

    The last row is a document's start.
    """

    frequencies: NDArray[np.float32]
    fertilities: NDArray[np.float32]

    @classmethod
    def of_counts(cls, followed: Counts, ways: Counts, vocabulary: int) -> "TokenStatistics":
        """From how often and in how many ways each token goes on; others are never followed."""
        logs = (np.log1p(_widened(counts, vocabulary)) for counts in (followed, ways))
        return cls(*(log.astype(np.float32) for log in logs))

    def of(self, previous: NDArray[np.int32]) -> NDArray[np.float32]:
        """Both numbers for the tokens before: [rows, 2]; -1 is a document's start."""
        return np.stack([self.frequencies[previous], self.fertilities[previous]], axis=1)


def _widened(counts: Counts, vocabulary: int) -> Counts:
    unknown = np.zeros(vocabulary + 1 - len(counts), np.int64)
    return np.concatenate([counts[:-1], unknown, counts[-1:]])


def count_pairs(corpus: Corpus, first: int, last: int) -> tuple[Counts, Pairs]:
    """Of the entries first..last-1: how many follow each token, and the distinct pairs.

    A document's first entry follows the token `vocabulary`, which is none.
    """
    start = corpus.vocabulary
    counts, pairs = np.zeros(start + 1, np.int64), np.empty(0, np.int64)
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        before = corpus.before(begin, end).astype(np.int64)
        before[before < 0] = start
        counts += np.bincount(before, minlength=start + 1)
        pairs = np.union1d(pairs, before * (start + 1) + corpus.values(begin, end))
    return counts, pairs


def count_ways(parts: Sequence[Pairs], vocabulary: int) -> Counts:
    """How many different tokens follow each, from pairs of several parts of a corpus.

    About BLOCK pairs are in memory at a time, or as many as one token has.
    """
    ways, first = np.zeros(vocabulary + 1, np.int64), 0
    while first <= vocabulary:
        last = _fitting(parts, first, vocabulary)
        cuts = [_between(part, first, last, vocabulary) for part in parts]
        distinct = np.unique(np.concatenate([np.empty(0, np.int64), *cuts]))
        ways += np.bincount(distinct // (vocabulary + 1), minlength=vocabulary + 1)
        first = last
    return ways


def _fitting(parts: Sequence[Pairs], first: int, vocabulary: int) -> int:
    """Up to which token there are no more than BLOCK pairs; one token at least."""
    low, high = first + 1, vocabulary + 1
    while low < high:
        middle = (low + high + 1) // 2
        if sum(len(_between(part, first, middle, vocabulary)) for part in parts) <= BLOCK:
            low = middle
        else:
            high = middle - 1
    return low


def _between(pairs: Pairs, first: int, last: int, vocabulary: int) -> Pairs:
    """The pairs of the tokens first..last-1, from a map as they lie there."""
    begin, end = np.searchsorted(pairs, [first * (vocabulary + 1), last * (vocabulary + 1)])
    return pairs[begin:end]
