"""Search-free runs: how many tokens one search serves.

A run begins at a token that was searched for, or at a document's first token, and goes on while
tokens are reached without a search; it ends before the next search or with its document. So every
token is in exactly one run, and a run of length 1 is a search that led nowhere. These are the
paper's "n-grams having n > 1, which either started or continued an automaton traversal".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.documents import TokensByDocument
from retomaton_dist.storage.canonical import Json


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
