"""Context order: entries by the tokens before them, the latest first, and kernels that make it.

An entry's context is what precedes its value in its own document. `before` holds the token right
before each entry, so that the context of entry e is before[e], before[e - 1], ... to where its
document begins. There it is negative: NONE where nothing precedes (the model read a prefix), or
-2 - token for a token that is its document's first and has no entry of its own.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.layout import slot_order
from retomaton_dist.automaton.pieces import SCAN, added, ranges_within
from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.storage.automaton import id_type

NONE = -1

Before = NDArray[np.int32]


@compiled
def token_at(before: Before, entry: Whole, depth: Whole) -> Whole:
    """Token number `depth` of an entry's context, 0 being the latest; NONE if it is shorter."""
    if not depth <= entry < before.shape[0]:
        return NONE
    for place in range(entry, entry - depth, -1):
        if before[place] < 0:
            return NONE
    token = np.int64(before[entry - depth])
    return token if token >= NONE else -2 - token


@compiled
def next_token(before: Before, entry: Whole, depth: Whole) -> Whole:
    """Token number `depth` of a context that is known to have the `depth` ones before it."""
    if not depth <= entry < before.shape[0] or before[entry - depth + 1] < 0:
        return NONE
    token = np.int64(before[entry - depth])
    return token if token >= NONE else -2 - token


@compiled
def tokens_at(before: Before, entries: Ids, depth: Whole, tokens: NDArray[np.int32]) -> None:
    """Token number `depth` of each entry's context, counted from 1; 0 where it is shorter."""
    for i in range(entries.shape[0]):
        tokens[i] = token_at(before, np.int64(entries[i]), depth) + 1


def context_order(before: Before, entries: Ids, longest: int) -> NDArray[np.int64]:
    """The order of ascending entries by the first `longest` tokens of their contexts, then entry.

    A shorter context comes before those that it begins.
    """
    order = np.arange(len(entries))
    # Places whose entries still share all tokens with a neighbour, and which of them do.
    shared, groups = order.copy(), np.zeros(len(entries), np.int64)
    for depth in range(longest):
        tokens = np.empty(len(shared), np.int32)
        tokens_at(before, entries[order[shared]], depth, tokens)
        within = slot_order(groups, tokens)
        order[shared] = order[shared][within]
        groups, tied = _regrouped(groups, tokens[within])
        shared = shared[tied]
    return order


def _regrouped(
    groups: NDArray[np.int64], tokens: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number the groups of equal (group, token), without those of one; say which places stay."""
    begins = np.ones(len(groups) + 1, np.bool_)
    begins[1:-1] = (groups[1:] != groups[:-1]) | (tokens[1:] != tokens[:-1])
    tied = ~(begins[:-1] & begins[1:])
    return np.cumsum(begins[:-1][tied]), tied


def first_tokens(before: Before) -> NDArray[np.int64]:
    """The latest token of each context, counted from 1; 0 where a context is empty."""
    return np.where(before < NONE, -2 - before, before).astype(np.int64) + 1


def ordered_pieces(
    before: Before, longest: int, low: int, high: int, expected: int, most: int
) -> Iterator[Ids]:
    """Entries in context order, a piece of at most about `most` at a time.

    They are those whose latest token, counted from 1, is low..high-1; there are `expected`, and if
    that is more than `most`, they share that token.
    """
    if expected > most:
        yield from _parts_of_run(before, longest, [low], most)
    else:
        yield _ordered(before, longest, [], low, high)


def _parts_of_run(before: Before, longest: int, prefix: list[int], most: int) -> Iterator[Ids]:
    """Entries whose contexts begin alike, cut by the next token; `before` is read once per part."""
    if len(prefix) == longest or prefix[-1] == 0:
        # Nothing more tells them apart: they are in order already.
        yield from _matching(before, prefix[:-1], prefix[-1], prefix[-1] + 1)
        return
    counts = np.zeros(1, np.int64)
    for entries in _matching(before, prefix[:-1], prefix[-1], prefix[-1] + 1):
        tokens = np.empty(len(entries), np.int32)
        tokens_at(before, entries, len(prefix), tokens)
        counts = added(counts, np.bincount(tokens))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    for low, high in ranges_within(offsets, most):
        if offsets[high] - offsets[low] > most:
            yield from _parts_of_run(before, longest, [*prefix, low], most)
        else:
            yield _ordered(before, longest, prefix, low, high)


def _ordered(before: Before, longest: int, prefix: list[int], low: int, high: int) -> Ids:
    found = [np.empty(0, id_type(len(before))), *_matching(before, prefix, low, high)]
    entries = np.concatenate(found)
    ordered: Ids = entries[context_order(before, entries, longest)]
    return ordered


def _matching(before: Before, prefix: list[int], low: int, high: int) -> Iterator[Ids]:
    """Entries, ascending, whose contexts begin with `prefix` and then a token of low..high-1."""
    wanted = np.array(prefix, np.int64)
    for first in range(0, len(before), SCAN):
        last = min(first + SCAN, len(before))
        found = np.empty(last - first, id_type(len(before)))
        yield found[: find_matching(before, wanted, low, high, first, last, found)].copy()


@compiled
def find_matching(
    before: Before,
    prefix: NDArray[np.int64],
    low: Whole,
    high: Whole,
    first: Whole,
    last: Whole,
    found: Ids,
) -> Whole:
    """List those of the entries first..last-1; return how many."""
    count: Whole = 0
    depth = prefix.shape[0]
    for entry in range(first, last):
        fits = True
        for i in range(depth):
            fits = fits and token_at(before, entry, i) + 1 == prefix[i]
        if fits and low <= token_at(before, entry, depth) + 1 < high:
            found[count] = entry
            count += 1
    return count
