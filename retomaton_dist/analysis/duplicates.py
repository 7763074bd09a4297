"""Documents of a text that another text has, too: word for word, or almost.

Almost means that stretches of NEAR_GRAM tokens or more, all of them somewhere in the other text,
cover NEAR_SHARE of the document. (Llama 2 counts contaminated samples by the same measure.) A
document with fewer tokens than that can only be the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis import ngrams
from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import Hashes, Lengths, Places, mixed
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import Corpus

NEAR_GRAM, NEAR_SHARE = 10, 0.8
# Documents whose lengths are compared together.
BLOCK_DOCUMENTS = 1 << 16

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
    """Compare every document of a text with another text; both are in memory."""
    same = np.isin(document_hashes(text), document_hashes(other))
    return duplicates_of(text, same, ngrams.longest_matches(text, other))


def duplicates_of(text: TokensByDocument, same: Mask, matched: Lengths) -> Duplicates:
    """What is a duplicate, from the documents that are the same and each token's longest match."""
    covered = covered_by(matched, NEAR_GRAM)
    counts = np.add.reduceat(np.append(covered, False).astype(np.int64), text.bounds[:-1])
    lengths = np.diff(text.bounds)
    near = (lengths >= NEAR_GRAM) & (counts >= NEAR_SHARE * lengths)
    return Duplicates(same, near & ~same)


def covered_by(matched: Lengths, n: int) -> Mask:
    """Say of each token whether it is part of an n-gram that the other text has."""
    ends = (matched >= n).astype(np.int64)
    ended = np.cumsum(np.concatenate([[0], ends, np.zeros(n - 1, np.int64)]))
    covered: Mask = ended[n:] > ended[: len(ends)]
    return covered


class SoughtDocuments:
    """Documents of a text that are looked for in a corpus; `met` says which were found."""

    def __init__(self, text: TokensByDocument) -> None:
        self._hashes, self._lengths = document_hashes(text), np.unique(np.diff(text.bounds))

    def look(self, corpus: Corpus, first: int, last: int) -> Mask:
        """Which of them the documents first..last-1 of a corpus are, word for word."""
        met = np.zeros(len(self._hashes), np.bool_)
        for begin in range(first, last, BLOCK_DOCUMENTS):
            numbers = np.arange(begin, min(begin + BLOCK_DOCUMENTS, last))
            lengths = corpus.lengths[numbers[0] : numbers[-1] + 1] + corpus.unpredicted
            # No other can be the same; nor are they longer than what is looked for.
            likely = np.isin(lengths, self._lengths)
            for group in _groups(numbers[likely], lengths[likely]):
                found = document_hashes(TokensByDocument.of_documents(corpus, group))
                met |= np.isin(self._hashes, found)
        return met


def _groups(numbers: Places, lengths: Places) -> Iterator[list[int]]:
    """Documents that are read together: those that begin within so many tokens."""
    blocks = (np.cumsum(lengths) - lengths) // ngrams.BLOCK_TOKENS
    for group in np.split(numbers, np.flatnonzero(np.diff(blocks)) + 1):
        if len(group):
            yield group.tolist()


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
