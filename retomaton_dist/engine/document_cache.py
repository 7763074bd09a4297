"""The document cache: what followed the last tokens earlier in the same text.

Every earlier token of the text votes for itself, the more so the longer the context that it shares
with the present position. Contexts of 0, 1, ... tokens are interpolated (Witten-Bell): the level m
has seen n tokens, t of them different, and leaves t / (n + t) to the level below; what the empty
context leaves goes to the LM. So

    p_cache(token) = votes for the token + escape p_lm(token)

is known before the token and sums to 1. It is a function of the tokens alone: nothing is kept from
position to position, so that texts can be copied, cut and continued at will.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import Whole, compiled

# The longest context that is compared, and how many tokens back a text is remembered.
LONGEST = 5
WINDOW = 4096

Tokens = NDArray[np.int32]
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


class CacheTargets(NamedTuple):
    """Of one token per row: its votes, the LM's share, and the longest context that was seen."""

    votes: Floats
    escape: Floats
    matched: NDArray[np.int32]


class CacheVotes(NamedTuple):
    """The votes of all tokens, row by row: votes[i, j] are for tokens[i, j], j below counts[i]."""

    tokens: Tokens
    votes: Floats
    counts: Rows
    escape: Floats
    matched: NDArray[np.int32]

    def select(self, rows: Rows) -> "CacheVotes":
        """Some of the rows."""
        chosen: dict[str, NDArray[Any]] = {n: column[rows] for n, column in self._asdict().items()}
        return CacheVotes(**chosen)

    def of(self, tokens: Tokens) -> Floats:
        """The votes for one token per row."""
        same = self.tokens == tokens[:, None]
        same &= np.arange(self.tokens.shape[1]) < self.counts[:, None]
        chosen: Floats = np.where(same, self.votes, 0.0).sum(axis=1)
        return chosen


def cache_targets(
    tokens: Tokens, begins: Rows, ends: Rows, targets: Tokens, vocabulary: int
) -> CacheTargets:
    """What the texts tokens[begins[i]:ends[i]] make of the targets that might follow them."""
    made = CacheTargets(np.zeros(len(ends)), np.ones(len(ends)), np.zeros(len(ends), np.int32))
    fill_targets(tokens, begins, ends, targets, np.int64(vocabulary), *made)
    return made


def cache_votes(tokens: Tokens, begins: Rows, ends: Rows, vocabulary: int) -> CacheVotes:
    """What the texts tokens[begins[i]:ends[i]] make of every token that might follow them."""
    most = int(np.minimum(ends - begins, WINDOW).max(initial=0))
    shape = len(ends), most
    made = CacheVotes(
        np.zeros(shape, np.int32),
        np.zeros(shape),
        np.zeros(len(ends), np.int64),
        np.ones(len(ends)),
        np.zeros(len(ends), np.int32),
    )
    fill_votes(tokens, begins, ends, np.int64(vocabulary), *made)
    return made


@compiled
def fill_targets(
    tokens: Tokens,
    begins: Rows,
    ends: Rows,
    targets: Tokens,
    vocabulary: Whole,
    votes: Floats,
    escape: Floats,
    matched: NDArray[np.int32],
) -> None:
    """Fill the columns of `CacheTargets`."""
    longest_of = np.full(vocabulary, -1, np.int8)
    lengths, per_vote = np.empty(WINDOW, np.int8), np.empty(LONGEST + 1, np.float64)
    for row in range(len(ends)):
        first = max(begins[row], ends[row] - WINDOW)
        escape[row], matched[row] = weigh(tokens, first, ends[row], lengths, longest_of, per_vote)
        for place in range(first, ends[row]):
            if tokens[place] == targets[row]:
                votes[row] += per_vote[lengths[place - first]]


@compiled
def fill_votes(
    tokens: Tokens,
    begins: Rows,
    ends: Rows,
    vocabulary: Whole,
    named: Tokens,
    votes: Floats,
    counts: Rows,
    escape: Floats,
    matched: NDArray[np.int32],
) -> None:
    """Fill the columns of `CacheVotes`."""
    longest_of, column = np.full(vocabulary, -1, np.int8), np.full(vocabulary, -1, np.int32)
    lengths, per_vote = np.empty(WINDOW, np.int8), np.empty(LONGEST + 1, np.float64)
    for row in range(len(ends)):
        first = max(begins[row], ends[row] - WINDOW)
        escape[row], matched[row] = weigh(tokens, first, ends[row], lengths, longest_of, per_vote)
        for place in range(first, ends[row]):
            token = tokens[place]
            if column[token] < 0:
                column[token] = counts[row]
                named[row, counts[row]] = token
                counts[row] += 1
            votes[row, column[token]] += per_vote[lengths[place - first]]
        for j in range(counts[row]):
            column[named[row, j]] = -1


@compiled
def weigh(
    tokens: Tokens,
    first: Whole,
    end: Whole,
    lengths: NDArray[np.int8],
    longest_of: NDArray[np.int8],
    per_vote: Floats,
) -> tuple[float, Whole]:
    """Find out how much a vote counts by the length of its context.

    Return the escape and the longest context. `lengths` are those of the contexts that each token
    shares with the end; `longest_of`, by token, is -1 before and after.
    """
    seen, different = np.zeros(LONGEST + 1, np.int64), np.zeros(LONGEST + 1, np.int64)
    for place in range(first, end):
        length = 0
        while (
            length < LONGEST
            and place - length > first
            and tokens[place - 1 - length] == tokens[end - 1 - length]
        ):
            length += 1
        lengths[place - first] = length
        token = tokens[place]
        for m in range(length + 1):
            seen[m] += 1
        while longest_of[token] < length:
            longest_of[token] += 1
            different[longest_of[token]] += 1
    for place in range(first, end):
        longest_of[tokens[place]] = -1
    escape, matched = 1.0, 0
    per_vote[:] = 0.0
    for m in range(LONGEST, -1, -1):
        if seen[m]:
            matched = max(matched, m)
            per_vote[m] = escape / (seen[m] + different[m])
            escape *= different[m] / (seen[m] + different[m])
    # A vote with a long context counts for all shorter ones, too.
    for m in range(1, LONGEST + 1):
        per_vote[m] += per_vote[m - 1]
    return escape, matched
