"""Context order: entries by the tokens before them, the latest first, and kernels that make it.

An entry's context is what precedes its value in its own document. `before` holds the token right
before each entry, so that the context of entry e is before[e], before[e - 1], ... to where its
document begins. There it is negative: NONE where nothing precedes (the model read a prefix), or
-2 - token for a token that is its document's first and has no entry of its own.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.sorting import Keys, key_order
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
def next_token(before: Before, entry: Whole, depth: Whole) -> Whole:
    """Token number `depth` of a context that is known to have the `depth` ones before it."""
    if not depth <= entry < before.shape[0] or before[entry - depth + 1] < 0:
        return NONE
    token = np.int64(before[entry - depth])
    return token if token >= NONE else -2 - token


@compiled
def pack_contexts(before: Before, skipped: Whole, longest: Whole, bits: Whole, keys: Keys) -> None:
    """The contexts of the entries after the first `skipped` ones as numbers in the same order.

    Tokens are counted from 1 and take so many bits each; 0 stands for none.
    """
    per_word = 64 // bits
    for row in range(keys.shape[0]):
        depth: Whole = 0
        token: Whole = 0
        ended = False
        for word in range(keys.shape[1]):
            packed = np.uint64(0)
            for _ in range(per_word):
                token = 0
                if depth < longest and not ended and depth <= skipped + row:
                    token = np.int64(before[skipped + row - depth])
                    ended = bool(token < 0)
                    token = 1 + (token if token >= NONE else -2 - token)
                packed = (packed << np.uint64(bits)) | np.uint64(token)
                depth += 1
            keys[row, word] = packed


def token_bits(vocabulary: int) -> int:
    """Bits of a token of a context, counted from 1."""
    return vocabulary.bit_length()


def key_words(longest: int, bits: int) -> int:
    """Words of a context's key."""
    return -(-longest // (64 // bits))


def context_keys(before: Before, skipped: int, longest: int, bits: int) -> Keys:
    """A key for each entry but the first `skipped`, which are there as context of the others.

    Keys are in the order of contexts: a shorter one comes before those that it begins.
    """
    keys = np.empty((len(before) - skipped, key_words(longest, bits)), np.uint64)
    pack_contexts(before, skipped, longest, bits, keys)
    return keys


def context_order(before: Before, longest: int) -> NDArray[np.int64]:
    """All entries by the first `longest` tokens of their contexts, then by entry."""
    bits = token_bits(int(first_tokens(before).max(initial=0)))
    return key_order(context_keys(before, 0, longest, max(1, bits)))


def first_tokens(before: Before) -> NDArray[np.int64]:
    """The latest token of each context, counted from 1; 0 where a context is empty."""
    return np.where(before < NONE, -2 - before, before).astype(np.int64) + 1
