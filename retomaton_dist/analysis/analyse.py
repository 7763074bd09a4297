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
from retomaton_dist.analysis.ngrams import Lengths, Places, overlap_counts, seen
from retomaton_dist.analysis.passage import longest_passage
from retomaton_dist.analysis.runs import (
    Decode,
    captured,
    describe_runs,
    find_runs,
    free_starts,
    most_probable,
)
from retomaton_dist.engine.scores import Scores
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import Corpus

LENGTHS = (3, 6, 10)
# Sequences of this length are listed only if they appear nowhere in the corpus.
UNSEEN_LENGTH = 10


@dataclass(frozen=True)
class Analysis:
    """The rows of an evaluated text, beside the corpus.

    Only evaluated rows count as the text. For each of them, `longest` is the longest n-gram (of
    LONGEST tokens at most) that ends with it in its document and that the corpus has, and
    `frequency` how often the corpus has its token. `duplicates` is what was found of documents.
    Memory grows with the rows.
    """

    scores: Scores
    text: Corpus
    corpus: Corpus
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

    def walk(
        self,
        label: str,
        searched: NDArray[np.bool_],
        log_p: NDArray[np.floating],
        decode: Decode,
    ) -> Json:
        """Describe the walk `label`; `log_p` is what its method gives each row's token."""
        runs = find_runs(self.rows, searched)
        reached = captured(runs, searched)
        return {
            "walk": label,
            "runs": {**describe_runs(runs), "foss": 1 - float(searched.mean())},
            "sequences": {
                str(length): self._sequences(length, searched, log_p, decode) for length in LENGTHS
            },
            "passage": longest_passage(
                reached, self.scores, self.matched, self.text, self.corpus, decode
            ),
        }

    def _sequences(
        self,
        length: int,
        searched: NDArray[np.bool_],
        log_p: NDArray[np.floating],
        decode: Decode,
    ) -> list[Json]:
        starts = free_starts(self.rows, searched, length)
        if length == UNSEEN_LENGTH:
            starts = starts[~seen(self.rows, self.matched, length)[starts]]
        return most_probable(self.rows, starts, length, log_p, decode)
