"""Kernels of drafting: what followed in the corpus, by votes, and what followed in the text itself.

Every voter is a slot of the automaton, whose value is its vote. The most votes win, only those who
voted for it go on, along their pointers, and vote on the next token.
"""

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Columns, LaneArrays, next_of
from retomaton_dist.automaton.tables import FREE, place_of, table_size
from retomaton_dist.compiled import Whole, compiled

Tokens = NDArray[np.int32]
Rows = NDArray[np.int64]
Slots = NDArray[np.int64]


@compiled
def vote_by_walk(
    columns: Columns,
    lanes: LaneArrays,
    lane_of: Rows,
    drawn: Tokens,
    room: Rows,
    tokens: Tokens,
    votes: Rows,
    voters: Rows,
) -> None:
    """Fill in drafts of row i from its lane: voters are candidates with the value `drawn[i]`.

    Each of them votes for what its pointer leads to.
    """
    asked = np.empty(lanes.slots.shape[1], np.int64)
    for row in range(drawn.shape[0]):
        count, lane = 0, lane_of[row]
        for i in range(lanes.counts[lane]):
            if lanes.values[lane, i] == drawn[row]:
                asked[count] = next_of(columns, lanes.slots[lane, i])
                count += 1
        voters[row] = count
        vote(columns, asked[:count], room[row], tokens[row], votes[row])


@compiled
def vote_by_suffix(
    columns: Columns,
    entries: Slots,
    recent: Tokens,
    rows: Rows,
    room: Rows,
    tokens: Tokens,
    votes: Rows,
    voters: Rows,
) -> None:
    """Fill in drafts of these rows: voters are the entries before which most tokens match.

    `recent` are the text's last tokens, the latest first; `entries` were looked up for them.
    """
    asked = np.empty(entries.shape[1], np.int64)
    for i in range(rows.shape[0]):
        count = 0
        longest: Whole = 1
        for entry in entries[i]:
            if not 0 <= entry < columns.slots.shape[0]:
                continue
            matched = _matched(columns, entry, recent[i])
            if matched > longest:
                count, longest = 0, matched
            if matched == longest:
                asked[count] = np.int64(columns.slots[entry])
                count += 1
        row = rows[i]
        voters[row] = count
        vote(columns, asked[:count], room[row], tokens[row], votes[row])


@compiled
def _matched(columns: Columns, entry: Whole, recent: Tokens) -> Whole:
    """How many tokens before an entry are those of the text, the latest first."""
    slot, length = np.int64(columns.slots[entry]), np.int64(0)
    while length < recent.shape[0] and entry - length > 0:
        before = np.int64(columns.slots[entry - length - 1])
        if before >= columns.values.shape[0] or next_of(columns, before) != slot:
            break
        if columns.values[before] != recent[length]:
            break
        slot = before
        length += 1
    return length


@compiled
def vote(columns: Columns, asked: Slots, room: Whole, tokens: Tokens, votes: Rows) -> None:
    """Fill in the tokens that most voters agree on, and how many do.

    `asked` are the voters' slots (-1: at a document's end), and are used up. Among equals the
    first voter's token wins: what a search found comes nearest first.
    """
    left = asked.shape[0]
    table = np.empty(table_size(left), np.int64)
    counts = np.empty(table.shape[0], np.int64)
    for depth in range(min(room, tokens.shape[0])):
        size = table_size(left)
        table[:size] = FREE
        for i in range(left):
            if 0 <= asked[i] < columns.values.shape[0]:
                value = np.int64(columns.values[asked[i]])
                place = place_of(table, size, value)
                counts[place] = counts[place] + 1 if table[place] == value else 1
                table[place] = value
        most, chosen = _most(columns, asked[:left], table, counts, size)
        if most == 0:
            break
        tokens[depth], votes[depth] = chosen, most
        agreeing = 0
        for i in range(left):
            if asked[i] >= 0 and columns.values[asked[i]] == chosen:
                asked[agreeing] = next_of(columns, asked[i])
                agreeing += 1
        left = agreeing


@compiled
def _most(
    columns: Columns, asked: Slots, table: Slots, counts: Rows, size: Whole
) -> tuple[Whole, Whole]:
    """The most votes that a value has, and the first such value by voters; 0 if none voted."""
    most, chosen = np.int64(0), np.int64(-1)
    for slot in asked:
        if 0 <= slot < columns.values.shape[0]:
            value = np.int64(columns.values[slot])
            found = counts[place_of(table, size, value)]
            if found > most:
                most, chosen = found, value
    return most, chosen


@compiled
def copy_from_text(
    texts: Tokens, lengths: Rows, room: Rows, longest: Whole, tokens: Tokens, matched: Rows
) -> None:
    """Fill in what followed the latest of the longest earlier matches of each text's last tokens.

    A copy that reaches the text's end goes on with itself: so repetitions are drafted, too.
    `matched` is how many tokens matched, `longest` at most; 0 where the last one is new.
    """
    for row in range(lengths.shape[0]):
        text, end = texts[row], lengths[row]
        best: Whole = 0
        source: Whole = 0
        for place in range(end - 2, -1, -1):
            length = 0
            while length < min(longest, place + 1) and (
                text[place - length] == text[end - 1 - length]
            ):
                length += 1
            if length > best:
                best, source = length, place + 1
                if best == longest:
                    break
        matched[row] = best
        if best:
            for i in range(min(room[row], tokens.shape[1])):
                at = source + i
                tokens[row, i] = text[at] if at < end else tokens[row, at - end]
