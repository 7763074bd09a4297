"""Documents of a text that another text has, too: word for word, or almost.

Almost means that stretches of NEAR_GRAM tokens or more, all of them somewhere in the other text,
cover NEAR_SHARE of the document. (Llama 2 counts contaminated samples by the same measure.) A
document with fewer tokens than that can only be the same.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis import ngrams
from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import Hashes, mixed, seen
from storage.canonical import Json

NEAR_GRAM, NEAR_SHARE = 10, 0.8

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Duplicates:
    """Document by document: whether another text has it word for word, or only almost."""

    same: Mask
    near: Mask

    def describe(self, lengths: NDArray[np.int64], numbers: NDArray[np.int64]) -> Json:
        """Counts of documents and of their tokens; and which they are, by their `numbers`."""
        facts: Json = {"documents": len(lengths), "tokens": int(lengths.sum())}
        for name, chosen in (("same", self.same), ("near", self.near)):
            facts[name] = numbers[chosen].tolist()
            facts[f"{name}_tokens"] = int(lengths[chosen].sum())
        return facts


def find_duplicates(text: TokensByDocument, other: TokensByDocument) -> Duplicates:
    """Compare every document of a text with another text, which is streamed twice."""
    same = np.isin(document_hashes(text), document_hashes(other))
    covered = covered_by(text, other, NEAR_GRAM)
    counts = np.add.reduceat(np.append(covered, False).astype(np.int64), text.bounds[:-1])
    lengths = np.diff(text.bounds)
    near = (lengths >= NEAR_GRAM) & (counts >= NEAR_SHARE * lengths)
    return Duplicates(same, near & ~same)


def covered_by(text: TokensByDocument, other: TokensByDocument, n: int) -> Mask:
    """Say of each token whether it is part of an n-gram that the other text has."""
    starts = seen(text, other, n).astype(np.int64)
    reached = np.cumsum(np.concatenate([starts, np.zeros(n, np.int64)]))
    reached[n:] -= reached[:-n].copy()
    covered: Mask = reached[: len(starts)] > 0
    return covered


def document_hashes(text: TokensByDocument) -> Hashes:
    """A hash of 64 bits of every document's tokens in their order."""
    found = np.zeros(len(text.bounds) - 1, np.uint64)
    for first in range(0, len(text), ngrams.BLOCK_TOKENS):
        last = min(first + ngrams.BLOCK_TOKENS, len(text))
        documents = text.numbers(first, last)
        places = (np.arange(first, last) - text.bounds[documents]).astype(np.uint64)
        tokens = text.tokens[first:last].astype(np.uint64)
        # A token's place is mixed in first, so that the sum knows the order.
        np.add.at(found, documents, mixed(tokens + mixed(places + np.uint64(1))))
    return mixed(found + np.diff(text.bounds).astype(np.uint64))
