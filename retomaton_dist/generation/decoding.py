"""Decoding: rows of texts that join and leave at any step, with or without drafts.

Every token is chosen from p at its position. A drafted token stands if it is the one that was
chosen: then the same forward pass has what the next position needs. A text depends on its prompt,
its parameters and its seed, never on the texts beside it.

A step admits requests while there are rows for them, reads a block of some prompts, and has all
texts whose prompts are read grow.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.mixture import Mixtures
from retomaton_dist.engine.walker import Rows
from retomaton_dist.generation.drafts import DraftSource, TextStanding, Verified
from retomaton_dist.generation.generator import Generator, Tokens
from retomaton_dist.generation.growth import BLOCK, Growth
from retomaton_dist.generation.sampling import choose, most_likely, position_keys
from retomaton_dist.generation.text_request import Alternatives, GrownText, TextRequest, text_id
from retomaton_dist.generation.walk_slots import WalkSlots

# Tokens of one forward pass over prompts, and logits if all of them are wanted.
BATCH_TOKENS, BATCH_LOGITS = 8192, 1 << 27


@dataclass(frozen=True)
class Effort:
    """What was spent on texts: seconds, new tokens, forward passes, searches, drafted tokens.

    `searches` counts what was looked for, also for the prompts, and ahead of need.
    """

    seconds: float
    tokens: int
    forwards: int
    searches: int
    drafted: int
    accepted: int

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all texts per second."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, eq=False)
class RowOwner:
    """Whose text a row is: that of a request (a copy of it), and what was noted on the way."""

    request: TextRequest
    copy: int
    alternatives: list[Alternatives] = field(default_factory=list)

    @property
    def id(self) -> np.uint64:
        """Tells texts apart."""
        return text_id(self.request.prompt, self.copy)


class Decoding:
    """Greedy decoding or sampling of requests, `rows` texts at a time."""

    def __init__(self, generator: Generator, rows: int, drafts: DraftSource | None = None) -> None:
        self._generator, self._drafts = generator, drafts
        self._walks = WalkSlots(generator, rows)
        self._waiting: deque[TextRequest] = deque()
        self._reading: deque[Growth] = deque()
        self._running: Growth | None = None
        self._free_rows = rows
        self._ended: list[GrownText] = []
        self._seconds = 0.0
        self._forwards = self._drafted = self._accepted = self._new = 0
        vocabulary = generator.stepper.lm.vocabulary
        self._prompts_at_once = max(1, min(BATCH_TOKENS, BATCH_LOGITS // vocabulary) // BLOCK)

    @property
    def busy(self) -> bool:
        """Whether any request is not finished."""
        return bool(self._waiting or self._reading or self._running)

    @property
    def effort(self) -> Effort:
        """What was spent so far."""
        spent = self._seconds, self._new, self._forwards, self._walks.searches
        return Effort(*spent, self._drafted, self._accepted)

    def submit(self, request: TextRequest) -> None:
        """Have a request wait for rows; it may not have more copies than there are rows."""
        self._waiting.append(request)

    def cancel(self, number: int) -> None:
        """Forget all requests of this number; their rows are free at once."""
        self._waiting = deque(one for one in self._waiting if one.number != number)
        for growth in [*self._reading, *([self._running] if self._running else [])]:
            owners: list[RowOwner] = growth.texts.owners.tolist()
            gone = [owner for owner in owners if owner.request.number == number]
            reading = growth is not self._running
            self._free_rows += sum(owner.request.copies if reading else 1 for owner in gone)
            left = [row for row, owner in enumerate(owners) if owner not in gone]
            growth.select(np.array(left, np.int64))
        self._leave_out_empty()

    def step(self) -> list[GrownText]:
        """Go on by one step; the texts that ended with it."""
        since = time.perf_counter()
        self._ended = []
        self._admit()
        if self._reading:
            self._read_prompts()
        if self._running is not None:
            self._grow(self._running)
        self._leave_out_empty()
        self._seconds += time.perf_counter() - since
        return self._ended

    def run(self, requests: Iterable[TextRequest]) -> list[GrownText]:
        """Decode requests to their ends, in their order; nothing else may be under way."""
        for request in requests:
            self.submit(request)
        grown: list[GrownText] = []
        try:
            while self.busy:
                grown += self.step()
        finally:
            self.close()
        return sorted(grown, key=lambda text: (text.prompt, text.copy))

    def close(self) -> None:
        """End the walks' threads."""
        self._walks.close()

    def _admit(self) -> None:
        """Give rows to those who waited longest, and begin to read their prompts."""
        admitted: list[TextRequest] = []
        while self._waiting and self._waiting[0].copies <= self._free_rows:
            admitted.append(self._waiting.popleft())
            self._free_rows -= admitted[-1].copies
        for scored in (False, True):
            alike = [one for one in admitted if one.score_prompt == scored]
            for first in range(0, len(alike), self._prompts_at_once):
                part = alike[first : first + self._prompts_at_once]
                prompts = [request.prompt for request in part]
                growth = Growth.begin(self._generator, self._walks, prompts, scored=scored)
                growth.texts.owners[:] = [RowOwner(request, 0) for request in part]
                self._reading.append(growth)

    def _read_prompts(self) -> None:
        """Read a block of the prompts whose turn it is; those that are read get a first token."""
        growth = self._reading[0]
        self._reading.rotate(-1)
        scored = growth.texts.owners[0].request.score_prompt

        def see(rows: Rows, tokens: Tokens, mixtures: Mixtures) -> None:
            self._note(growth, rows, tokens, mixtures)

        done = growth.read_prompts(see if scored else None)
        self._forwards += 1
        if not len(done):
            return
        requests = [growth.texts.owners[row].request for row in done]
        part = growth.take(np.repeat(done, [request.copies for request in requests]))
        noted = [list(owner.alternatives) for owner in part.texts.owners]
        copies = [copy for request in requests for copy in range(request.copies)]
        part.texts.owners[:] = [
            RowOwner(owner.request, owner.request.first_copy + copy, alternatives)
            for owner, copy, alternatives in zip(part.texts.owners, copies, noted, strict=True)
        ]
        wanted = [owner.request.ending.max_new_tokens > 0 for owner in part.texts.owners]
        self._span(part, np.empty((len(part), 0), np.int32), np.zeros(len(part), np.int64), wanted)
        if not len(part):
            return
        if self._running is None:
            self._running = part
        else:
            self._running.join(part)

    def _grow(self, growth: Growth) -> None:
        """Have the running texts grow: read drafts, and choose at their places."""
        since = time.perf_counter()
        drafts, counts = self._draft(growth)
        half = time.perf_counter()
        growth.read(drafts, counts)
        self._forwards += 1
        done = time.perf_counter()
        stood, drawn = self._span(growth, drafts, counts)
        if self._drafts is not None:
            rest = time.perf_counter() - done + half - since
            width = 1 + drafts.shape[1]
            self._drafts.learn(Verified(counts, stood, drawn, width, done - half, rest))
        self._drafted += int(counts.sum())

    def _draft(self, growth: Growth) -> tuple[NDArray[np.int32], Rows]:
        """Drafts of all texts, and how many tokens each has."""
        texts = growth.texts
        if self._drafts is None:
            return np.empty((len(growth), 0), np.int32), np.zeros(len(growth), np.int64)
        most = np.array([owner.request.ending.max_new_tokens for owner in texts.owners])
        # The last token of all is chosen without being read.
        room = np.minimum(growth.room(), most - texts.made - 1)
        lanes = growth.lanes, texts.slots
        drafts = self._drafts.draft(TextStanding(*lanes, texts.tokens, texts.lengths, room))
        known = np.cumprod(drafts >= 0, axis=1).sum(axis=1)
        counts = np.minimum(known, room)
        return drafts[:, : int(counts.max(initial=0))], counts

    def _span(
        self,
        growth: Growth,
        drafts: NDArray[np.int32],
        counts: Rows,
        wanted: list[bool] | None = None,
    ) -> tuple[Rows, Tokens]:
        """Choose tokens at the places of the span: how many drafted ones stood, and the first.

        Texts that are not `wanted` end before.
        """
        rows, ended = np.arange(len(growth)), {}
        if wanted is not None:
            ended = {row: "length" for row in rows.tolist() if not wanted[row]}
            rows = rows[wanted]
        stood, drawn = np.zeros(len(growth), np.int64), np.zeros(len(growth), np.int32)
        for place in range(int(counts.max(initial=0)) + 1):
            if not len(rows):
                break
            mixtures = growth.mixtures(rows, place)
            tokens = self._choose(growth, rows, mixtures)
            if place == 0:
                drawn[rows] = tokens
            drafted = counts[rows] > place
            same = np.zeros(len(rows), np.bool_)
            if drafted.any():
                same[drafted] = tokens[drafted] == drafts[rows[drafted], place]
            self._note(growth, rows, tokens, mixtures)
            growth.append(rows, tokens, mixtures, same)
            stood[rows] += same
            ended |= self._endings(growth, rows)
            rows = rows[same & ~np.isin(rows, list(ended))]
        growth.end_span()
        self._accepted += int(stood.sum())
        self._drop(growth, ended)
        return stood, drawn

    def _choose(self, growth: Growth, rows: Rows, mixtures: Mixtures) -> Tokens:
        texts = growth.texts
        owners: list[RowOwner] = [texts.owners[row] for row in rows]
        seeds = np.array([owner.request.choosing.seed for owner in owners], np.uint64)
        ids = np.array([owner.id for owner in owners])
        before = [(texts.text(row), int(texts.prompt_lengths[row])) for row in rows]
        choosing = [owner.request.choosing for owner in owners]
        return choose(mixtures, choosing, position_keys(seeds, ids, texts.made[rows]), before)

    def _note(self, growth: Growth, rows: Rows, tokens: Tokens, mixtures: Mixtures) -> None:
        """Write down what else was likely, where that was asked for."""
        for place, row in enumerate(rows):
            owner: RowOwner = growth.texts.owners[row]
            if count := owner.request.alternatives:
                one = mixtures.select(np.array([place]))
                owner.alternatives.append(most_likely(one, int(tokens[place]), count))

    def _endings(self, growth: Growth, rows: Rows) -> dict[int, str]:
        """Why texts end with the tokens that they just got, of those that do."""
        texts, reasons = growth.texts, {}
        self._new += len(rows)
        for row in rows.tolist():
            owner: RowOwner = texts.owners[row]
            if owner.request.watch is not None:
                at = int(texts.lengths[row] - texts.scored_from[row]) - 1
                newest = texts.scores.at((slice(row, row + 1), at))
                last = tuple(owner.alternatives[-1:])
                owner.request.watch(
                    GrownText(owner.request.number, owner.copy, newest, alternatives=last)
                )
            prompt = int(texts.prompt_lengths[row])
            if (reason := owner.request.ending.reason(texts.text(row), prompt)) is not None:
                reasons[row] = reason
        return reasons

    def _drop(self, growth: Growth, ended: dict[int, str]) -> None:
        """Take texts that ended out."""
        for row, reason in sorted(ended.items()):
            owner: RowOwner = growth.texts.owners[row]
            scores, noted = growth.texts.scored(row), tuple(owner.alternatives)
            self._ended.append(GrownText(owner.request.number, owner.copy, scores, reason, noted))
        self._free_rows += len(ended)
        left = [row for row in range(len(growth)) if row not in ended]
        growth.select(np.array(left, np.int64))

    def _leave_out_empty(self) -> None:
        self._reading = deque(growth for growth in self._reading if len(growth))
        if self._running is not None and not len(self._running):
            self._running = None
