"""Everything that is said about one walk over a text: the content of analysis.json."""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import overlap, seen
from retomaton_dist.analysis.passage import longest_passage
from retomaton_dist.analysis.runs import captured, describe_runs, find_runs
from retomaton_dist.analysis.sequences import Decode, free_starts, most_probable
from retomaton_dist.scores.scores import Scores
from storage.canonical import Json
from storage.corpus import Corpus

LENGTHS = (3, 6, 10)
# Sequences of this length are listed only if they appear nowhere in the corpus.
UNSEEN_LENGTH = 10


def analyse(
    scores: Scores,
    label: str,
    log_p: NDArray[np.floating],
    text: Corpus,
    corpus: Corpus,
    decode: Decode,
) -> Json:
    """Describe the walk `label`; `log_p` is what its method gives each row's token.

    Only evaluated rows count as the text. The corpus is streamed; memory grows with the rows.
    """
    searched = scores.walk(label).searched
    rows = TokensByDocument.of_rows(scores.document, scores.position, scores.token)
    whole = TokensByDocument.of_corpus(corpus)
    runs = find_runs(rows, searched)
    passage = longest_passage(
        captured(runs, searched), scores.document, scores.position, text, corpus, decode
    )
    return {
        "walk": label,
        "runs": {**describe_runs(runs), "foss": 1 - float(searched.mean())},
        "overlap": overlap(rows, whole),
        "sequences": {
            str(length): _sequences(rows, whole, searched, length, log_p, decode)
            for length in LENGTHS
        },
        "passage": passage,
    }


def _sequences(
    rows: TokensByDocument,
    corpus: TokensByDocument,
    searched: NDArray[np.bool_],
    length: int,
    log_p: NDArray[np.floating],
    decode: Decode,
) -> list[Json]:
    starts = free_starts(rows, searched, length)
    if length == UNSEEN_LENGTH:
        starts = starts[~seen(rows, corpus, length)[starts]]
    return most_probable(rows, starts, length, log_p, decode)
