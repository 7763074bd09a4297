"""Entries drawn at random, the same ones whoever draws them, and keys that differ."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Centroids, Keys, blocks_of
from retomaton_dist.compiled import compiled

_ENTRIES_AT_ONCE = 1 << 18
_LEADING_BITS = 16
_ROUNDS = 8
_MINUS_ZERO = np.uint64(0x8000)

Take = Callable[[NDArray[np.int64]], Keys]
"""Gives the keys of some rows, numbered in ascending order."""


def priorities(numbers: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return a random-looking priority for each number; no two numbers share one (splitmix64)."""
    mixed = numbers.astype(np.uint64)
    start = np.uint64((seed * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) % 2**64)
    mixed = (mixed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + start
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True)
class Draw:
    """Which of many entries are drawn, without a list of them: those of priorities up to `most`.

    They are those that `drawn` lists. Asking again gives the same, whoever asks.
    """

    seed: int
    most: int

    def among(self, first: int, last: int) -> NDArray[np.int64]:
        """The drawn ones of first..last-1, ascending."""
        found = [np.empty(0, np.int64)]
        for numbers, ranks in _ranked(first, last, self.seed):
            found.append(numbers[ranks <= np.uint64(self.most)])
        return np.concatenate(found)


def drawn(rows: int, count: int, seed: int) -> NDArray[np.int64]:
    """Draw `count` of 0..rows-1 without replacement: those of the lowest priorities, in its order.

    A longer draw begins with the shorter one. Memory grows with `count`, not with `rows`.
    """
    count = min(count, rows)
    share = count / max(rows, 1)
    threshold = min(int((share * 1.1 + 64 / max(rows, 1)) * 2**64), 2**64 - 1)
    numbers = Draw(seed, threshold).among(0, rows)
    if len(numbers) < count:
        numbers = np.arange(rows)
    return numbers[np.argsort(priorities(numbers, seed))[:count]]


def draw(rows: int, count: int, seed: int) -> Draw:
    """Draw `count` of 0..rows-1. Memory grows with neither: priorities are counted, then sought."""
    assert 0 < count <= rows, "draws nothing, or more than there is"
    counts = np.zeros(1 << _LEADING_BITS, np.int64)
    for _, ranks in _ranked(0, rows, seed):
        counts += np.bincount(_leading(ranks), minlength=len(counts))
    reached = np.cumsum(counts)
    leading = int(np.searchsorted(reached, count))
    some = [ranks[_leading(ranks) == leading] for _, ranks in _ranked(0, rows, seed)]
    before = int(reached[leading] - counts[leading])
    return Draw(seed, int(np.sort(np.concatenate(some))[count - before - 1]))


def _ranked(
    first: int, last: int, seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    """The numbers first..last-1 and their priorities, some at a time."""
    for part in blocks_of(last - first, _ENTRIES_AT_ONCE):
        numbers = np.arange(first + part.start, first + part.stop)
        yield numbers, priorities(numbers, seed)


def _leading(ranks: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (ranks >> np.uint64(64 - _LEADING_BITS)).astype(np.int64)


def digests(keys: Keys) -> NDArray[np.uint64]:
    """Return a 64-bit digest of every key: equal keys share one (0 and -0 are equal)."""
    found = np.empty(len(keys), np.uint64)
    _digest(np.ascontiguousarray(keys).view(np.uint16), found)
    return found


@compiled
def _digest(words: NDArray[np.uint16], found: NDArray[np.uint64]) -> None:
    for i in range(words.shape[0]):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for j in range(words.shape[1]):
            word = np.uint64(words[i, j])
            if word == _MINUS_ZERO:
                word = np.uint64(0)
            mixed = (mixed ^ word) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
        found[i] = mixed


def first_centroids(rows: int, take: Take, states: int, seed: int) -> Centroids:
    """Start from `states` keys that are drawn at random and differ from each other.

    Equal keys are common, and two equal centroids are one too many: where a draw repeats a key,
    more are drawn, up to a point. States for which no key is left have no centroid (NaN).
    """
    chosen = take(np.empty(0, np.int64))
    tried = 0
    for _ in range(_ROUNDS):
        entries = np.sort(drawn(rows, tried + states - len(chosen), seed)[tried:])
        if not len(entries):
            break
        chosen = different(np.concatenate([chosen, take(entries)]))
        tried += len(entries)
    centroids = np.full((states, chosen.shape[1]), np.nan, np.float32)
    centroids[: len(chosen)] = chosen
    return centroids


def different(keys: Keys) -> Keys:
    """The keys without those that equal an earlier one."""
    return keys[np.sort(np.unique(digests(keys), return_index=True)[1])]
