"""The longest passage that a walk captured, and where in the corpus it comes from."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis import ngrams
from retomaton_dist.analysis.documents import TokensByDocument, document_at
from retomaton_dist.analysis.ngrams import Lengths, Sought, gram_hashes
from retomaton_dist.analysis.runs import Decode, Runs
from retomaton_dist.engine.scores import Scores
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import Corpus

# Tokens that are shown before and after a passage.
CONTEXT = 16


@dataclass(frozen=True)
class Match:
    """Tokens that a passage and a corpus share: where they begin in each, and how many."""

    in_passage: int
    in_corpus: int
    length: int


def longest_match(
    passage: NDArray[np.int32], corpus: Corpus, shared: int = ngrams.LONGEST
) -> Match | None:
    """The longest stretch of a passage that one document of the corpus has too, or None.

    Of several equally long ones, the first in the corpus. `shared` is how long an n-gram of the
    passage is known to be in the corpus, LONGEST at most: the corpus is read once, and not
    to its end if that is all.
    """
    best: Match | None = None
    for match in _matches(passage, corpus, shared):
        if best is None or match.length > best.length:
            best = match
        if best.length == len(passage) or shared < ngrams.LONGEST:
            break
    if best is None:
        return None
    # The same tokens may begin earlier in the passage.
    hashes = gram_hashes(passage, best.length)
    first = int(np.flatnonzero(hashes == hashes[best.in_passage])[0])
    return replace(best, in_passage=first)


def _matches(passage: NDArray[np.int32], corpus: Corpus, length: int) -> Iterator[Match]:
    """Matches of `length` tokens or more, as long as they are, in the order of the corpus."""
    hashes = gram_hashes(passage, length)
    sought = Sought(hashes)
    places = [np.flatnonzero(sought.kinds == kind) for kind in range(len(sought.types))]
    for first in range(0, len(corpus.tokens), ngrams.BLOCK_TOKENS):
        owned = min(ngrams.BLOCK_TOKENS, len(corpus.tokens) - first)
        last = min(first + owned + length, len(corpus.tokens))
        stretch = TokensByDocument.of_stretch(corpus, first, last)
        whole = np.flatnonzero(stretch.room(0, owned) >= length)
        numbers, types = sought.find(gram_hashes(stretch.tokens, length)[whole])
        for number, kind in zip(whole[numbers].tolist(), types.tolist(), strict=True):
            for place in places[kind].tolist():
                match = _longest_at(passage, place, corpus, first + number)
                if match is not None:
                    yield match


def _longest_at(passage: NDArray[np.int32], place: int, corpus: Corpus, begin: int) -> Match | None:
    """The match that begins at two places; None if it begins before them, and is known."""
    number = document_at(corpus, begin)
    tokens, start = corpus.tokens, corpus.first_token(number)
    if place and begin > start and passage[place - 1] == tokens[begin - 1]:
        return None
    end = start + corpus.unpredicted + int(corpus.lengths[number])
    theirs = tokens[begin : min(end, begin + len(passage) - place)]
    differ = np.flatnonzero(theirs != passage[place : place + len(theirs)])
    return Match(place, begin, int(differ[0]) if len(differ) else len(theirs))


def longest_passage(
    captured: Runs,
    scores: Scores,
    matched: Lengths,
    text: Corpus,
    corpus: Corpus,
    decode: Decode,
) -> Json | None:
    """Describe the longest of the captured runs and its source; None if nothing was captured.

    The source is the stretch of the corpus with the longest match; None if no token is shared.
    `matched` is the longest match with the corpus that ends with each row.
    """
    if not len(captured.lengths) or captured.lengths.max() == 0:
        return None
    run = int(captured.lengths.argmax())
    row, length = int(captured.firsts[run]), int(captured.lengths[run])
    number = int(scores.document[row])
    first = text.first_token(number) + text.unpredicted + int(scores.position[row])
    inside = np.minimum(matched[row : row + length], np.arange(1, length + 1))
    shared = int(inside.max())
    passage = text.tokens[first : first + length]
    match = longest_match(passage, corpus, shared) if shared else None
    return {
        "tokens": length,
        "evaluated": _stretch(text, number, first, length, decode),
        "source": match and _source(corpus, match, decode),
    }


def _source(corpus: Corpus, match: Match, decode: Decode) -> Json:
    number = document_at(corpus, match.in_corpus)
    entry = match.in_corpus - corpus.unpredicted * (number + 1)
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
    end = begin + corpus.unpredicted + int(corpus.lengths[number])
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
