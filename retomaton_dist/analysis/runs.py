"""What a walk reached without a search: runs of tokens, and the most probable sequences in them.

A run begins at a token that was searched for, or at a document's first token, and goes on while
tokens are reached without a search; it ends before the next search or with its document. So every
token is in exactly one run, and a run of length 1 is a search that led nowhere. These are the
paper's "n-grams having n > 1, which either started or continued an automaton traversal".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.analysis.ngrams import gram_hashes
from retomaton_dist.storage.canonical import Json

Decode = Callable[[Sequence[int]], str]
# Sequences that are listed.
SHOWN = 10


@dataclass(frozen=True)
class Runs:
    """First token and length of each run, in order."""

    firsts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def find_runs(text: TokensByDocument, searched: NDArray[np.bool_]) -> Runs:
    """Cut a text into its runs."""
    begins = searched.copy()
    firsts = text.bounds[:-1]
    begins[firsts[firsts < len(text)]] = True
    places = np.flatnonzero(begins)
    return Runs(places, np.diff(np.append(places, len(text))))


def captured(runs: Runs, searched: NDArray[np.bool_]) -> Runs:
    """The runs without the tokens that were searched for; nothing may be left of a run."""
    skipped = searched[runs.firsts].astype(np.int64)
    return Runs(runs.firsts + skipped, runs.lengths - skipped)


def describe_runs(runs: Runs) -> Json:
    """The histogram of lengths, [length, runs] pairs, and the share of tokens in runs over 1."""
    lengths, counts = np.unique(runs.lengths, return_counts=True)
    tokens = int(runs.lengths.sum())
    alone = int((runs.lengths == 1).sum())
    return {
        "lengths": [[int(a), int(b)] for a, b in zip(lengths, counts, strict=True)],
        "runs": len(runs.lengths),
        "tokens": tokens,
        "share_longer_than_1": 1 - alone / tokens if tokens else 0.0,
        "longest": int(lengths[-1]) if len(lengths) else 0,
    }


def free_starts(
    text: TokensByDocument, searched: NDArray[np.bool_], length: int
) -> NDArray[np.int64]:
    """Places where `length` tokens of one document begin, none of which was searched for."""
    searches = np.concatenate([[0], np.cumsum(searched)])
    count = max(0, len(text) - length + 1)
    free = searches[length:] == searches[:count] if count else np.zeros(0, np.bool_)
    return np.flatnonzero(free & (text.room(0, count) >= length))


def most_probable(
    text: TokensByDocument,
    starts: NDArray[np.int64],
    length: int,
    log_p: NDArray[np.floating],
    decode: Decode,
) -> list[Json]:
    """The sequences of `length` tokens at `starts` with the highest probability under `log_p`.

    A sequence's probability is the product of its tokens'; one that occurs several times is
    listed once, with its count and the geometric mean over its occurrences. Of sequences that
    overlap in the text only the most probable is listed, or one passage would fill the list.
    """
    logs = log_p[starts[:, None] + np.arange(length)].sum(axis=1, dtype=np.float64)
    hashes = gram_hashes(text.tokens, length)[starts]
    _, first, kinds, counts = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    means = np.bincount(kinds, weights=logs, minlength=len(counts)) / counts
    ranked = np.lexsort((first, -means))
    return [
        {
            "text": decode(text.tokens[place : place + length].tolist()),
            "count": int(counts[kind]),
            "probability": float(np.exp(means[kind])),
            "probability_per_token": float(np.exp(means[kind] / length)),
        }
        for kind, place in _apart(ranked, starts[first], length)
    ]


def _apart(
    ranked: NDArray[np.int64], places: NDArray[np.int64], length: int
) -> list[tuple[int, int]]:
    """The best kinds and their places, without those that overlap a better one."""
    chosen: list[tuple[int, int]] = []
    for kind in ranked.tolist():
        place = int(places[kind])
        if all(abs(place - other) >= length for _, other in chosen):
            chosen.append((kind, place))
        if len(chosen) == SHOWN:
            break
    return chosen
