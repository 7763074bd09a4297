"""Which n-grams of a text appear in a corpus. The corpus is read once; memory grows with the text.

An n-gram never crosses the end of a document, in the text or in the corpus. It is known by a hash
of 64 bits. That two different ones share a hash happens about once in 2^64 pairs: a million n-grams
of a text meet a false one among 10^9 of a corpus with odds of 1 : 18,000.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.storage.canonical import Json

Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]
Lengths = NDArray[np.int32]

LONGEST = 10
BLOCK_TOKENS = 1 << 18
# The filter has about 16 flags per n-gram, 2^24 at most: foreign n-grams are seldom looked up.
_FILTER_SPACE, _FILTER_BITS = 16, 24
# Odd constants of splitmix64.
_LEFT = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class Sought:
    """N-grams to look for: `types` are the distinct hashes, sorted; `kinds` the type of each."""

    def __init__(self, hashes: Hashes) -> None:
        self.types, self.kinds = np.unique(hashes, return_inverse=True)
        bits = min(max(1, (_FILTER_SPACE * len(self.types)).bit_length()), _FILTER_BITS)
        self._shift = np.uint64(64 - bits)
        self._possible = np.zeros(1 << bits, np.bool_)
        self._possible[self.types >> self._shift] = True

    def find(self, hashes: Hashes) -> tuple[Places, Places]:
        """Which of `hashes` are among them: their indices, and their types."""
        likely = np.flatnonzero(self._possible[hashes >> self._shift])
        types = np.searchsorted(self.types, hashes[likely])
        types[types == len(self.types)] = 0
        right = self.types[types] == hashes[likely] if len(likely) else np.zeros(0, np.bool_)
        return likely[right], types[right]


@dataclass(frozen=True)
class GramHits:
    """Which n-grams of a text the corpus has, as far as it was read.

    `types` says of each type, those of 1 token first, whether it was found; `counts` how often
    each single token was.
    """

    types: NDArray[np.bool_]
    counts: Places

    def add(self, other: "GramHits") -> None:
        """Add what was found in another part of the corpus."""
        self.types[:] |= other.types
        self.counts[:] += other.counts


class SoughtText:
    """All n-grams of a text, of 1 to LONGEST tokens, to be looked for in a corpus."""

    def __init__(self, text: TokensByDocument) -> None:
        self._text, hashes = text, GramHashes(text.tokens)
        room = text.room(0, len(text))
        self._starts = [np.flatnonzero(room >= n) for n in range(1, LONGEST + 1)]
        self._grams = [
            Sought(hashes.at(n, starts)) for n, starts in enumerate(self._starts, start=1)
        ]
        self._firsts = np.cumsum([0, *(len(gram.types) for gram in self._grams)])

    def nothing(self) -> GramHits:
        """No hits yet."""
        counts = np.zeros(len(self._grams[0].types), np.int64)
        return GramHits(np.zeros(self._firsts[-1], np.bool_), counts)

    def look(self, stretch: TokensByDocument, owned: int, met: GramHits) -> None:
        """Add the n-grams that begin at the first `owned` places; the stretch has LONGEST more.

        Where no n-gram of the text begins, no longer one does: few places are left after some n.
        """
        places, room, hashes = np.arange(owned), stretch.room(0, owned), GramHashes(stretch.tokens)
        for n, gram in enumerate(self._grams, start=1):
            places = places[room[places] >= n]
            numbers, types = gram.find(hashes.at(n, places))
            places = places[numbers]
            met.types[self._firsts[n - 1] + types] = True
            if n == 1:
                met.counts[:] += np.bincount(types, minlength=len(met.counts))
            if not len(places):
                break

    def matched(self, met: GramHits) -> Lengths:
        """Length of the longest n-gram that ends with each token and that the corpus has."""
        found = np.zeros(len(self._text), np.int32)
        for n, (starts, gram) in enumerate(zip(self._starts, self._grams, strict=True), start=1):
            right = met.types[self._firsts[n - 1] :][gram.kinds]
            found[starts[right] + n - 1] = n
        return found

    def frequency(self, met: GramHits) -> Places:
        """How often the corpus has each token."""
        counted: Places = met.counts[self._grams[0].kinds]
        return counted


def longest_matches(text: TokensByDocument, other: TokensByDocument) -> Lengths:
    """For each token the longest n-gram, LONGEST at most, that ends with it and another text has.

    Both are in memory.
    """
    sought = SoughtText(text)
    met = sought.nothing()
    for first in range(0, len(other), BLOCK_TOKENS):
        last = min(first + BLOCK_TOKENS, len(other))
        stretch = other.part(first, min(last + LONGEST, len(other)))
        sought.look(stretch, last - first, met)
    return sought.matched(met)


def overlap_counts(text: TokensByDocument, matched: Lengths) -> list[Json]:
    """For n = 1..LONGEST: how many n-grams a text has, and how many of them the corpus has.

    `types` counts every n-gram once, `occurrences` as often as the text has it.
    """
    hashes, room, found = GramHashes(text.tokens), text.room(0, len(text)), []
    for n in range(1, LONGEST + 1):
        starts = np.flatnonzero(room >= n)
        types, met = hashes.at(n, starts), matched[starts + n - 1] >= n
        found.append(
            {
                "n": n,
                "types": len(np.unique(types)),
                "types_seen": len(np.unique(types[met])),
                "occurrences": len(starts),
                "occurrences_seen": int(met.sum()),
            }
        )
    return found


class GramHashes:
    """Hashes of a text's n-grams, each made of those of its halves."""

    def __init__(self, tokens: NDArray[np.int32]) -> None:
        self._tokens = tokens
        self._whole = {1: mixed(tokens.astype(np.uint64) + _LEFT)}

    def whole(self, n: int) -> Hashes:
        """Hash of the n tokens from each place on, as many as there are whole n-grams."""
        if n not in self._whole:
            half, count = n // 2, max(0, len(self._tokens) - n + 1)
            self._whole[n] = self._joined(n, slice(count), slice(half, half + count))
        return self._whole[n]

    def at(self, n: int, places: Places) -> Hashes:
        """Hash of the n tokens from some places on."""
        # Short ones are parts of longer ones, and needed everywhere.
        if n <= LONGEST // 2:
            return self.whole(n)[places]
        return self._joined(n, places, places + n // 2)

    def _joined(self, n: int, left: Places | slice, right: Places | slice) -> Hashes:
        half = n // 2
        return mixed(self.whole(half)[left] * _LEFT + self.whole(n - half)[right])


def mixed(values: Hashes) -> Hashes:
    """The values, each of whose bits now depends on all; they are changed in place."""
    # Between two halves, or a sum of products would be the same for other tokens far too often.
    values ^= values >> np.uint64(30)
    values *= _FIRST
    values ^= values >> np.uint64(27)
    values *= _SECOND
    values ^= values >> np.uint64(31)
    return values
