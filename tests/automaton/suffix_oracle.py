"""The meaning of a look-up as an obvious double loop over documents of tokens."""

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SlowSuffixes:
    """Documents as lists of tokens; with `unpredicted`, their first token has no entry."""

    documents: list
    longest: int
    unpredicted: int = 0

    def contexts(self):
        """What precedes each entry in its document, the latest token first."""
        return [
            tuple(reversed(document[max(0, place - self.longest) : place]))
            for document in self.documents
            for place in range(self.unpredicted, len(document))
        ]

    def look_up(self, recent, k):
        """Entries (at most k) by descending length of their match, and the longest length."""
        known = list(itertools.takewhile(lambda token: token >= 0, recent))
        found = {}
        for entry, context in enumerate(self.contexts()):
            found.setdefault(match_length(context, known), []).append((context, entry))
        listed = []
        for length in sorted(set(found) - {0}, reverse=True):
            alike = [entry for _, entry in sorted(found[length])]
            listed += evenly(alike, k - len(listed))
        return listed, max(found, default=0)


def match_length(context, known):
    length = 0
    while length < min(len(context), len(known)) and context[length] == known[length]:
        length += 1
    return length


def evenly(items, room, run=4):
    """All items, or as many as there is room for: runs of a few, as much left out before each."""
    if len(items) <= room:
        return items
    left_out, runs = len(items) - room, -(-room // run)
    return [items[i + (2 * (i // run) + 1) * left_out // (2 * runs)] for i in range(room)]


def before_of(documents, unpredicted=0):
    """The column `before` of such documents."""
    column = []
    for document in documents:
        for place in range(unpredicted, len(document)):
            token = document[place - 1] if place else None
            column.append(-1 if token is None else token if place > unpredicted else -2 - token)
    return np.array(column, np.int32)
