"""Everything that is said about an evaluated text and its walks: the content of analysis.json."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.gains import Compared, describe_gains
from retomaton_dist.analysis.groups import text_groupings
from retomaton_dist.analysis.ngrams import Lengths, Places, overlap_counts, seen
from retomaton_dist.analysis.passage import longest_passage
from retomaton_dist.analysis.resampling import Resampling
from retomaton_dist.analysis.runs import captured, describe_runs, find_runs
from retomaton_dist.analysis.sequences import Decode, free_starts, most_probable
from retomaton_dist.engine.scores import Scores
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import Corpus

LENGTHS = (3, 6, 10)
# Sequences of this length are listed only if they appear nowhere in the corpus.
UNSEEN_LENGTH = 10


@dataclass(frozen=True)
class Shared:
    """What a text's tokens share with the corpus, as the scan of the corpus found it.

    `matched` is the longest n-gram that ends with a token of its document and that the corpus has,
    LONGEST at most; `frequency` how often the corpus has the token.
    """

    matched: Lengths
    frequency: Places


@dataclass(frozen=True)
class Analysis:
    """The rows of an evaluated text, beside the corpus.

    Only evaluated rows count as the text. `shared` is what each of them shares with the corpus,
    `duplicates` what was found of its documents. Memory grows with the rows.
    """

    scores: Scores
    text: Corpus
    corpus: Corpus
    shared: Shared
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
        return np.minimum(self.shared.matched, before + 1).astype(np.int32)

    @property
    def overlap(self) -> list[Json]:
        """How many n-grams of the rows the corpus has."""
        return overlap_counts(self.rows, self.matched)

    def gains(self, compared: Iterable[Compared]) -> list[Json]:
        """What each method makes better and worse against its baseline, by groups of tokens."""
        frequency = self.shared.frequency
        groupings = text_groupings(self.scores, frequency, self.matched, self.duplicates)
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
        rows, scores = self.rows, self.scores
        runs = find_runs(rows, searched)
        passage = longest_passage(
            captured(runs, searched),
            scores.document,
            scores.position,
            self.matched,
            self.text,
            self.corpus,
            decode,
        )
        return {
            "walk": label,
            "runs": {**describe_runs(runs), "foss": 1 - float(searched.mean())},
            "sequences": {
                str(length): _sequences(rows, self.matched, searched, length, log_p, decode)
                for length in LENGTHS
            },
            "passage": passage,
        }


def _sequences(
    rows: TokensByDocument,
    matched: Lengths,
    searched: NDArray[np.bool_],
    length: int,
    log_p: NDArray[np.floating],
    decode: Decode,
) -> list[Json]:
    starts = free_starts(rows, searched, length)
    if length == UNSEEN_LENGTH:
        starts = starts[~seen(rows, matched, length)[starts]]
    return most_probable(rows, starts, length, log_p, decode)
