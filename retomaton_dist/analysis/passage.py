"""The longest passage that a walk captured, and where in the corpus it comes from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import Sought, corpus_grams, gram_hashes
from retomaton_dist.analysis.runs import Runs
from retomaton_dist.analysis.sequences import Decode
from storage.canonical import Json
from storage.corpus import Corpus

# Tokens that are shown before and after a passage.
CONTEXT = 16


@dataclass(frozen=True)
class Match:
    """Tokens that a passage and a corpus share: where they begin in each, and how many."""

    in_passage: int
    in_corpus: int
    length: int


def longest_match(passage: NDArray[np.int32], corpus: TokensByDocument) -> Match | None:
    """The longest stretch of a passage that one document of the corpus has too, or None.

    Of several equally long ones, the first in the corpus. Takes log2(tokens of the passage)
    readings of the corpus.
    """
    best: Match | None = None
    shortest, longest = 1, len(passage)
    while shortest <= longest:
        length = (shortest + longest) // 2
        found = _find(passage, corpus, length)
        if found is None:
            longest = length - 1
        else:
            best, shortest = found, length + 1
    return best


def _find(passage: NDArray[np.int32], corpus: TokensByDocument, length: int) -> Match | None:
    hashes = gram_hashes(passage, length)
    sought = Sought(hashes)
    for places, others in corpus_grams(corpus, length):
        numbers, types = sought.find(others)
        if len(numbers):
            place = int(np.flatnonzero(hashes == sought.types[types[0]])[0])
            return Match(place, int(places[numbers[0]]), length)
    return None


def longest_passage(
    captured: Runs,
    document: NDArray[np.int32],
    position: NDArray[np.int32],
    text: Corpus,
    corpus: Corpus,
    decode: Decode,
) -> Json | None:
    """Describe the longest of the captured runs and its source; None if nothing was captured.

    The source is the stretch of the corpus with the longest match; None if no token is shared.
    """
    if not len(captured.lengths) or captured.lengths.max() == 0:
        return None
    run = int(captured.lengths.argmax())
    row, length = int(captured.firsts[run]), int(captured.lengths[run])
    number = int(document[row])
    first = text.first_token(number) + text.lead + int(position[row])
    match = longest_match(text.tokens[first : first + length], TokensByDocument.of_corpus(corpus))
    return {
        "tokens": length,
        "evaluated": _stretch(text, number, first, length, decode),
        "source": match and _source(corpus, match, decode),
    }


def _source(corpus: Corpus, match: Match, decode: Decode) -> Json:
    bounds = TokensByDocument.of_corpus(corpus).bounds
    number = int(np.searchsorted(bounds[1:], match.in_corpus, side="right"))
    entry = match.in_corpus - corpus.lead * (number + 1)
    return {
        **_stretch(corpus, number, match.in_corpus, match.length, decode),
        "tokens": match.length,
        "begins_at_token": match.in_passage,
        # A document's first token has no entry if there is no prefix to predict it from.
        "entry": entry if entry >= corpus.first_entries[number] else None,
    }


def _stretch(corpus: Corpus, number: int, first: int, length: int, decode: Decode) -> Json:
    """Some tokens of a document with their surroundings and their place in the source."""
    begin = corpus.first_token(number)
    end = begin + corpus.lead + int(corpus.lengths[number])
    last = first + length
    parts = {
        "before": (max(begin, first - CONTEXT), first),
        "text": (first, last),
        "after": (last, min(end, last + CONTEXT)),
    }
    found = corpus[number]
    return {
        "document": found.name,
        "file": found.source,
        "document_offset": found.offset,
        "byte_in_document": int(corpus.token_offsets[first]),
        **{name: decode(corpus.tokens[a:b].tolist()) for name, (a, b) in parts.items()},
    }
