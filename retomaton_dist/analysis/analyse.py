"""The analysis of an evaluated text and its walks: the content of analysis.json."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.bootstrap import Resampling
from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.gains import Compared, describe_gains
from retomaton_dist.analysis.groups import text_groupings
from retomaton_dist.analysis.ngrams import Lengths, Places, overlap_counts
from retomaton_dist.engine.scores import Scores
from retomaton_dist.storage.canonical import Json


@dataclass(frozen=True)
class Analysis:
    """The rows of an evaluated text, beside the corpus.

    Only evaluated rows count as the text. For each of them, `longest` is the longest n-gram (of
    LONGEST tokens at most) that ends with it in its document and that the corpus has, and
    `frequency` how often the corpus has its token. `duplicates` is what was found of documents.
    Memory grows with the rows.
    """

    scores: Scores
    longest: Lengths
    frequency: Places
    duplicates: Json

    @cached_property
    def rows(self) -> TokensByDocument:
        """The evaluated tokens."""
        scores = self.scores
        return TokensByDocument.of_rows(scores.document, scores.position, scores.token)

    @cached_property
    def matched(self) -> Lengths:
        """The longest match that ends with each row and lies in rows."""
        bounds = self.rows.bounds
        before = np.arange(len(self.rows)) - np.repeat(bounds[:-1], np.diff(bounds))
        return np.minimum(self.longest, before + 1).astype(np.int32)

    @property
    def overlap(self) -> list[Json]:
        """How many n-grams of the rows the corpus has."""
        return overlap_counts(self.rows, self.matched)

    def gains(self, compared: Iterable[Compared]) -> list[Json]:
        """What each method makes better and worse against its baseline, by groups of tokens."""
        groupings = text_groupings(self.scores, self.frequency, self.matched, self.duplicates)
        resampling = Resampling.of(self.scores.document)
        return [describe_gains(one, groupings, resampling) for one in compared]

    def runs(self, searched: NDArray[np.bool_]) -> Json:
        """How long a walk went without a search.

        A run begins at a token that was searched for, or at a document's first token, and goes on
        while tokens are reached without a search. So every token is in exactly one run, and a run
        of length 1 is a search that led nowhere. These are the paper's "n-grams having n > 1,
        which either started or continued an automaton traversal".
        """
        begins = searched.copy()
        begins[self.rows.bounds[:-1]] = True
        runs = np.diff(np.append(np.flatnonzero(begins), len(begins)))
        lengths, counts = np.unique(runs, return_counts=True)
        return {
            "lengths": [[int(a), int(b)] for a, b in zip(lengths, counts, strict=True)],
            "runs": len(runs),
            "tokens": len(begins),
            "share_longer_than_1": 1 - float((runs == 1).sum()) / len(begins),
            "longest": int(lengths[-1]),
            "foss": 1 - float(searched.mean()),
        }
