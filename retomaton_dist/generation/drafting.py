"""Drafts without a draft model: from the walk, from the corpus's suffixes, from the text itself.

A candidate whose value is the token just drawn points to what the corpus said next: these vote
(`draft_votes`). Where no candidate had the token, what follows the longest suffix of the text in
the corpus votes instead. Small models repeat themselves, so that what followed in the text itself
is drafted, too. Which of these a row takes is decided by how often each stood so far.

docs/results.md has what was measured: votes weighted by distance, or the nearest candidate alone,
draft worse.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.artifacts import open_suffixes
from retomaton_dist.automaton.arrays import Columns
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.draft_length import Acceptance, DraftLength, Floats
from retomaton_dist.generation.draft_votes import (
    Rows,
    Tokens,
    copy_from_text,
    vote_by_suffix,
    vote_by_walk,
)
from retomaton_dist.generation.drafts import DraftSource, TextStanding, Verified

if TYPE_CHECKING:
    from retomaton_dist.generation.loaded import RetomatonLM

# The suffix index that drafts are looked up in, if the store has one.
SUFFIXES = "default"

# Entries that are looked up for a suffix; more of them vote no better.
LOOKED_UP = 64
# Tokens that a match within the text is told apart by.
LONGEST = 8


Draft = DraftSource | int | Literal["auto"]
"""Who drafts: a source, so many tokens always (0: nobody), or what pays."""


@dataclass(frozen=True)
class Guesses:
    """Drafts of one source, a row per text: tokens, -1 behind the last one.

    What speaks for each token is told by two numbers: `support` (how many voted for it, or how
    many tokens matched) and `shares` (of those who agreed on all before it).
    """

    tokens: Tokens
    support: Rows
    shares: Floats


def from_walk(columns: Columns, standing: TextStanding, most: int) -> Guesses:
    """What candidates with the drawn token lead to, by votes."""
    assert standing.lanes is not None
    tokens, votes, voters = _room(len(standing.lengths), most)
    drawn = standing.texts[np.arange(len(tokens)), standing.lengths - 1]
    arrays = standing.lanes.arrays
    vote_by_walk(columns, arrays, standing.lane_of, drawn, standing.room, tokens, votes, voters)
    return _guesses(tokens, votes, voters)


def from_suffixes(
    columns: Columns, suffixes: Suffixes, standing: TextStanding, rows: Rows, most: int
) -> Guesses:
    """What follows the longest suffixes of these rows in the corpus, by votes."""
    tokens, votes, voters = _room(len(standing.lengths), most)
    recent = np.full((len(rows), suffixes.longest), -1, np.int32)
    for place, row in enumerate(rows):
        latest = standing.texts[row, : standing.lengths[row]][::-1][: suffixes.longest]
        recent[place, : len(latest)] = latest
    entries = suffixes.look_up(recent, LOOKED_UP).entries
    vote_by_suffix(columns, entries, recent, rows, standing.room, tokens, votes, voters)
    return _guesses(tokens, votes, voters)


def from_text(standing: TextStanding, most: int) -> Guesses:
    """What followed the longest earlier match of the last tokens in the text itself."""
    tokens, support, matched = _room(len(standing.lengths), most)
    texts = standing.texts, standing.lengths, standing.room
    copy_from_text(*texts, LONGEST, tokens, matched)
    support[:] = np.where(tokens >= 0, matched[:, None], 0)
    return Guesses(tokens, support, (tokens >= 0).astype(np.float64))


def _room(rows: int, most: int) -> tuple[Tokens, Rows, Rows]:
    shape = rows, most
    return np.full(shape, -1, np.int32), np.zeros(shape, np.int64), np.zeros(rows, np.int64)


def _guesses(tokens: Tokens, votes: Rows, voters: Rows) -> Guesses:
    could = np.concatenate([voters[:, None], votes[:, :-1]], axis=1)
    return Guesses(tokens, votes, votes / np.maximum(could, 1))


@dataclass(frozen=True)
class Learnt:
    """What is known of drafts so far: which stood, and which lengths pay if none is `fixed`."""

    fixed: int | None = None
    lengths: dict[int, DraftLength] = field(default_factory=dict)
    walk: Acceptance = field(default_factory=Acceptance)
    suffix: Acceptance = field(default_factory=Acceptance)
    text: Acceptance = field(default_factory=Acceptance)

    def length(self, rows: int) -> DraftLength:
        """What pays for about so many texts: the more there are, the dearer are wide passes."""
        return self.lengths.setdefault(rows.bit_length(), DraftLength(self.fixed))


class Drafting:
    """A `DraftSource` of all three, which goes on learning; texts of other calls may, too."""

    def __init__(self, suffixes: Suffixes | None, learnt: Learnt) -> None:
        self._suffixes, self._learnt = suffixes, learnt
        # Of every source: what is known of it, whose draft it is, and what it guessed.
        self._chosen: list[tuple[Acceptance, NDArray[np.bool_], Guesses]] = []

    def draft(self, standing: TextStanding) -> Tokens:
        """Tokens for every row from the source that promises most, as many as pay."""
        rows = len(standing.lengths)
        length = self._learnt.length(rows)
        most = min(length.most, int(standing.room.max(initial=0)))
        if not most or not length.looks:
            self._chosen = []
            return np.empty((rows, 0), np.int32)
        sources = self._sources(standing, most)
        chances = np.stack([known.expected(made.support, made.shares) for known, made in sources])
        best = chances.sum(axis=2).argmax(axis=0)
        numbers = np.arange(rows)
        self._chosen = [(known, best == place, made) for place, (known, made) in enumerate(sources)]
        tokens: Tokens = np.stack([made.tokens for _, made in sources])[best, numbers]
        return tokens[:, : length.choose(chances[best, numbers])]

    def learn(self, verified: Verified) -> None:
        """Take note of which drafts stood, and of what the pass took."""
        for known, chosen, made in self._chosen:
            # What was not drafted is compared with what came, too: that costs nothing.
            guessed = made.tokens[:, 0] >= 0
            drafted = np.where(chosen, verified.drafted, 0)
            tried = np.where(drafted, np.minimum(verified.accepted + 1, drafted), guessed)
            same = guessed & (made.tokens[:, 0] == verified.drawn)
            stood = np.where(drafted, verified.accepted, same)
            known.learn(made.support, made.shares, tried, stood)
        self._learnt.length(len(verified.drafted)).learn(verified)

    def _sources(self, standing: TextStanding, most: int) -> list[tuple[Acceptance, Guesses]]:
        found = [(self._learnt.text, from_text(standing, most))]
        if standing.lanes is None:
            return found
        columns = standing.lanes.automaton.columns
        walked = from_walk(columns, standing, most)
        found.insert(0, (self._learnt.walk, walked))
        silent = np.flatnonzero(walked.tokens[:, 0] < 0)
        if self._suffixes is not None and len(silent):
            guesses = from_suffixes(columns, self._suffixes, standing, silent, most)
            found.append((self._learnt.suffix, guesses))
        return found


def drafting_for(
    lm: "RetomatonLM", draft: Draft, num_beams: int = 1, kind: Hashable = None
) -> DraftSource | None:
    """What drafts for a loaded store: nothing (0), so many tokens, what pays ("auto"), or a source.

    Beams are not drafted: then "auto" is nothing. What is learnt of what pays is kept for the next
    texts of this `kind`.
    """
    if draft == "auto":
        if num_beams > 1:
            return None
        return Drafting(lm.draft_suffixes, lm.learnt.setdefault(kind, Learnt()))
    if isinstance(draft, int) and not isinstance(draft, bool) and draft >= 0:
        return Drafting(lm.draft_suffixes, Learnt(draft)) if draft else None
    if isinstance(draft, DraftSource):
        return draft
    raise BadInput(f"draft = {draft!r}: must be 'auto', 0 for none, or a number of tokens")


def suffixes_of(lm: "RetomatonLM") -> Suffixes | None:
    """What drafts are looked up in: the walk's suffix index, else the store's, if it has one."""
    found = lm.retrieval.suffix_index
    stage = lm.store.manifest.stages.get(f"suffix/{SUFFIXES}")
    if found is None and stage is not None and stage.done:
        return open_suffixes(lm.store, SUFFIXES, verify=lm.retrieval.verify)
    return found
