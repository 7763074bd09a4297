"""Tokenised texts that lie nowhere, to be read as a corpus is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.corpus import Corpus

NOWHERE = Path("/dev/null")


@dataclass(frozen=True, eq=False)
class CorpusInMemory(Corpus):
    """Documents by their tokens; they have neither names nor sources nor offsets."""

    documents: tuple[NDArray[np.int32], ...]

    @classmethod
    def of(
        cls, documents: Sequence[NDArray[np.int32]], prefix: int | None, vocabulary: int
    ) -> "CorpusInMemory":
        """The corpus of these documents, each of which has an entry at least."""
        return cls(NOWHERE, prefix, vocabulary, tuple(documents))

    @cached_property
    def tokens(self) -> NDArray[np.int32]:
        """All tokens, in corpus order."""
        return np.concatenate(self.documents)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of entries of each document; never 0."""
        return np.array([len(tokens) - self.lead for tokens in self.documents], np.int64)

    @cached_property
    def first_entries(self) -> NDArray[np.int64]:
        """First entry of each document."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)
