"""Context order: entries by the tokens before them, the latest first, and kernels that make it.

An entry's context is what precedes its value in its own document. `before` holds the token right
before each entry, so that the context of entry e is before[e], before[e - 1], ... to where its
document begins. There it is negative: NONE where nothing precedes (the model read a prefix), or
-2 - token for a token that is its document's first and has no entry of its own.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.layout import slot_order
from retomaton_dist.compiled import Whole, compiled

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
