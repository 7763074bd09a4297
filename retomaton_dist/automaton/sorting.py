"""Sorting records by keys of whole numbers, also more than fit in memory.

A record's key is one or more words of 64 bits, compared one after the other. Records that came
first stay first among those of equal keys.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.storage.exchange import Exchange, Records, Slice, joined

# Slices of a large range that are looked at to find out how its keys are distributed.
SAMPLED_SLICES = 32
# There are two destinations for each, and one more: numbers of 16 bits.
MOST_SPLITTERS = 1 << 14

Keys = NDArray[np.uint64]
"""[records, words]"""
Order = NDArray[np.int64]


def key_order(keys: Keys) -> Order:
    """The stable order of keys."""
    count = len(keys)
    bits = count.bit_length()
    ranks = _ranks(keys[:, 0])
    for word in range(1, keys.shape[1]):
        if ranks.max(initial=0) + 1 == count:
            break
        ranks = _ranks((ranks << bits) | _ranks(keys[:, word]))
    # One number holds rank and place: sorting plain numbers is far faster than a stable sort.
    packed = (ranks << bits) | np.arange(count)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def _ranks(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """How many different numbers are lower than each."""
    order = np.argsort(numbers)
    ordered = numbers[order]
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.cumsum(np.concatenate([[0], ordered[1:] != ordered[:-1]]))[: len(numbers)]
    return ranks


def choose_splitters(keys: Keys, count: int) -> Keys:
    """At most so many different keys, ascending, that cut a sample of keys into equal parts."""
    ordered = keys[key_order(keys)]
    chosen = ordered[(np.arange(1, count + 1) * len(ordered)) // (count + 1)]
    different = np.ones(len(chosen), np.bool_)
    different[1:] = (chosen[1:] != chosen[:-1]).any(axis=1)
    return chosen[different]


@compiled
def find_ranges(keys: Keys, splitters: Keys, ranges: NDArray[np.uint16]) -> None:
    """How many splitters are not above each key."""
    for i in range(keys.shape[0]):
        low: Whole = 0
        high: Whole = splitters.shape[0]
        while low < high:
            middle = (low + high) // 2
            if _is_below(keys[i], splitters[middle]):
                high = middle
            else:
                low = middle + 1
        ranges[i] = low


@compiled
def _is_below(left: Keys, right: Keys) -> bool:
    for word in range(left.shape[0]):
        if left[word] != right[word]:
            return bool(left[word] < right[word])
    return False


def ranges_of(keys: Keys, splitters: Keys) -> NDArray[np.uint16]:
    """The range of each key: the first one ends before the first splitter."""
    ranges = np.empty(len(keys), np.uint16)
    find_ranges(keys, splitters, ranges)
    return ranges


@dataclass(frozen=True)
class Sorter:
    """Sorts what a destination was sent, with at most `most` records in memory.

    `keys` gives the keys of records of type `record`; `order` is their stable order by these keys.
    What does not fit in memory is divided once more, by files in `scratch`.
    """

    record: np.dtype[Any]
    keys: Callable[[Records], Keys]
    order: Callable[[Records], Order]
    most: int
    scratch: Path

    def pieces(self, inbox: Exchange, slices: list[Slice]) -> Iterator[tuple[Records, Order]]:
        """Records, a piece at a time, with the order in which they are sorted."""
        total = sum(part.records for part in slices)
        if total <= self.most:
            if total:
                records = joined(list(inbox.read(slices)))
                yield records, self.order(records)
            return
        divided = self._divide(inbox, slices, total)
        for part in range(divided.destinations):
            found = divided.slices(part)
            if part % 2:
                # They have the key of one splitter: as they came, they are in order.
                for records in divided.read(found):
                    yield records, np.arange(len(records))
            else:
                within = replace(self, scratch=self.scratch / f"{part}")
                yield from within.pieces(divided, found)
        divided.remove()

    def _divide(self, inbox: Exchange, slices: list[Slice], total: int) -> Exchange:
        """Divide records by splitters into those between two of them, and those equal to one."""
        filled = [part for part in slices if part.records]
        chosen = filled[:: -(-len(filled) // SAMPLED_SLICES)]
        step = -(-sum(part.records for part in chosen) // self.most)
        sample = np.concatenate([self.keys(records[::step]) for records in inbox.read(chosen)])
        splitters = choose_splitters(sample, min(2 * total // self.most, MOST_SPLITTERS))
        parts = 2 * len(splitters) + 1
        divided = Exchange(self.scratch, self.record, 1, parts, self.most, inbox.traffic)

        def sides() -> Iterator[tuple[NDArray[Any], Records]]:
            for records in inbox.read(slices):
                keys = self.keys(records)
                above = ranges_of(keys, splitters)
                below = splitters[np.maximum(above, 1) - 1]
                equal = (above > 0) & (keys == below).all(axis=1)
                yield 2 * above - equal, records

        divided.send(0, sides())
        return divided
