"""Slow, obvious ways to say what the analysis must find."""

import numpy as np

from retomaton_dist.analysis.documents import TokensByDocument


def joined(documents):
    """Lists of tokens as `TokensByDocument`."""
    bounds = np.cumsum([0, *map(len, documents)])
    tokens = np.array([token for document in documents for token in document], np.int32)
    return TokensByDocument(tokens, bounds.astype(np.int64))


def grams(documents, n):
    """All n-grams, document by document."""
    return [
        tuple(document[i : i + n]) for document in documents for i in range(len(document) - n + 1)
    ]
