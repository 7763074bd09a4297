"""Small tools of the walking kernels: hash tables, hashes that give an order, and selection."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import Whole, compiled

FREE = np.int64(-1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_FINAL_A = np.uint32(0x85EBCA6B)
_FINAL_B = np.uint32(0xC2B2AE35)


@compiled
def table_size(items: Whole) -> Whole:
    """The least power of two that is at least twice `items`."""
    size = 16
    while size < 2 * items:
        size *= 2
    return size


@compiled
def place_of(table: NDArray[np.int64], size: Whole, key: Whole) -> Whole:
    """Where `key` is in the first `size` cells of a table, or the free cell where it would be."""
    mask = np.int64(size - 1)
    place = np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(32)) & mask
    while table[place] != FREE and table[place] != key:
        place = (place + np.int64(1)) & mask
    return place


@compiled
def holds(table: NDArray[np.int64], size: Whole, key: Whole) -> bool:
    """Whether `key` is in the first `size` cells of a table."""
    known: bool = table[place_of(table, size, key)] != FREE
    return known


@compiled
def _mixed(word: np.uint64) -> np.uint64:
    word = word + _GOLDEN
    word = (word ^ (word >> np.uint64(30))) * _MIX_A
    word = (word ^ (word >> np.uint64(27))) * _MIX_B
    return word ^ (word >> np.uint64(31))


@compiled
def step_key(seed: Whole, document: Whole, step: Whole) -> np.uint32:
    """What makes the hashes of one step of one document differ from all others'."""
    word = _mixed(np.uint64(seed))
    word = _mixed(word ^ np.uint64(document))
    word = _mixed(word ^ np.uint64(step))
    return np.uint32(word >> np.uint64(32))


@compiled
def entry_hash(entry: Whole, key: np.uint32) -> np.uint32:
    """hash(seed, document, t, entry): one to one for entries below 2^32, so that none tie."""
    word = np.uint32(entry) ^ np.uint32(np.uint32(np.uint64(entry) >> np.uint64(32)) * _FINAL_B)
    word = np.uint32(word ^ key)
    word = np.uint32((word ^ np.uint32(word >> np.uint32(16))) * _FINAL_A)
    word = np.uint32((word ^ np.uint32(word >> np.uint32(13))) * _FINAL_B)
    return np.uint32(word ^ np.uint32(word >> np.uint32(16)))


@compiled
def rank_of(distance: np.float32, within: np.uint32) -> np.uint64:
    """A whole number that orders by distance and then by `within`."""
    bits = np.float32(distance).view(np.int32)
    flipped = np.uint32(bits) ^ np.uint32(0x80000000) if bits >= 0 else ~np.uint32(bits)
    return (np.uint64(flipped) << np.uint64(32)) | np.uint64(within)


@compiled
def _middle(ranks: NDArray[np.uint64], low: Whole, high: Whole) -> np.uint64:
    a, b, c = ranks[low], ranks[(low + high) >> 1], ranks[high]
    return max(min(a, b), min(max(a, b), c))


@compiled
def partition(ranks: NDArray[np.uint64], wanted: Whole) -> None:
    """Bring the `wanted` lowest ranks to the front, the highest of them last."""
    low, high, place = 0, ranks.shape[0] - 1, wanted - 1
    while low < high:
        pivot = _middle(ranks, low, high)
        i, j = low, high
        while i <= j:
            while ranks[i] < pivot:
                i += 1
            while ranks[j] > pivot:
                j -= 1
            if i <= j:
                ranks[i], ranks[j] = ranks[j], ranks[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            return


@compiled
def keep_lowest(
    ranks: NDArray[np.uint64],
    items: NDArray[np.int64],
    count: Whole,
    wanted: Whole,
    spare: NDArray[np.uint64],
) -> np.uint64:
    """Keep the `wanted` lowest of the first `count` ranks and their items, in the order they have.

    Return the highest rank kept. `wanted` is between 1 and `count`.
    """
    spare[:count] = ranks[:count]
    partition(spare[:count], wanted)
    limit: np.uint64 = spare[wanted - 1]
    equals = 0
    for i in range(wanted):
        equals += spare[i] == limit
    kept = 0
    for i in range(count):
        if ranks[i] < limit or (ranks[i] == limit and equals > 0):
            equals -= ranks[i] == limit
            ranks[kept] = ranks[i]
            items[kept] = items[i]
            kept += 1
    return limit
