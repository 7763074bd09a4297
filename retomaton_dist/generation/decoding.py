"""Decoding: tokens chosen from the mixture until texts end, with or without drafts.

Every token is chosen from p at its position. A drafted token stands if it is the one that was
chosen: then the same forward pass has what the next position needs.
"""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.mixture import Mixtures
from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.engine.walker import Rows
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.drafts import DraftSource, TextStanding, Verified
from retomaton_dist.generation.generator import Generator, Tokens
from retomaton_dist.generation.growth import Growth
from retomaton_dist.generation.sampling import SamplingParams, choose, position_keys

Decode = Callable[[Sequence[int]], str]
NO_DRAFTS = np.empty((0, 0), np.int32)


@dataclass(frozen=True)
class Ending:
    """When a text ends: after so many new tokens, with an `eos`, or with a string of `stop`.

    `also` is asked of every text, prompt included, whether it ends for another reason.
    """

    max_new_tokens: int
    eos: tuple[int, ...]
    stop: tuple[str, ...]
    decode: Decode
    also: Callable[[Tokens], bool] | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise BadInput(f"max_new_tokens = {self.max_new_tokens}: must be 1 or more")
        if "" in self.stop:
            raise BadInput("stop: an empty string is everywhere; leave it out")

    def reason(self, text: Tokens, prompt: int) -> str | None:
        """Why a text whose first `prompt` tokens are given ends here; None: it goes on."""
        if int(text[-1]) in self.eos:
            return "eos"
        if self.stop and self.stops(text[prompt:]):
            return "stop"
        if self.also is not None and self.also(text):
            return "asked"
        return "length" if len(text) - prompt >= self.max_new_tokens else None

    def stops(self, tokens: Tokens) -> bool:
        """Whether a stop string came up with the last token."""
        # A token has a byte at least, so that none further back can matter.
        tail = max(len(word.encode()) for word in self.stop)
        text = self.decode(tokens[-tail - 1 :].tolist())
        return any(word in text for word in self.stop)


@dataclass(frozen=True)
class Effort:
    """What one call took, for all its texts: seconds, forward passes, searches, drafted tokens.

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


@dataclass(frozen=True)
class GrownText:
    """New tokens of a prompt's copy: all of a text that ended, or the newest one of one that grows.

    `ending` is "eos", "stop", "length" or "asked"; "" while it grows.
    """

    prompt: int
    copy: int
    scores: TokenScores
    ending: str = ""


Watch = Callable[[GrownText], None]


class Decoding:
    """Greedy decoding or sampling of `copies` texts for each prompt."""

    def __init__(
        self,
        generator: Generator,
        prompts: Sequence[Tokens],
        ending: Ending,
        choosing: SamplingParams,
        copies: int = 1,
        drafts: DraftSource | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._ending, self._choosing, self._drafts, self._watch = ending, choosing, drafts, watch
        self._begun = time.perf_counter()
        self._growth = Growth(generator, prompts, copies, ending.max_new_tokens)
        self._texts = [(prompt, copy) for prompt in range(len(prompts)) for copy in range(copies)]
        self._ids = np.array([text_id(prompts[prompt], copy) for prompt, copy in self._texts])
        self._drafted = self._new = 0
        self._grown: list[GrownText] = []

    def run(self) -> tuple[list[GrownText], Effort]:
        """Decode to the end; texts in the order of their prompts."""
        growth = self._growth
        try:
            self._span(NO_DRAFTS, np.zeros(len(growth), np.int64))
            while len(growth):
                self._step()
        finally:
            growth.close()
        grown = sorted(self._grown, key=lambda text: (text.prompt, text.copy))
        accepted = sum(int(text.scores.accepted.sum()) for text in grown)
        seconds = time.perf_counter() - self._begun
        spent = seconds, self._new, growth.forwards, growth.searches, self._drafted, accepted
        return grown, Effort(*spent)

    def _step(self) -> None:
        growth, since = self._growth, time.perf_counter()
        drafts, counts = self._draft()
        half = time.perf_counter()
        growth.read(drafts, counts)
        done = time.perf_counter()
        stood, drawn = self._span(drafts, counts)
        if self._drafts is not None:
            rest = time.perf_counter() - done + half - since
            width = 1 + drafts.shape[1]
            self._drafts.learn(Verified(counts, stood, drawn, width, done - half, rest))
        self._drafted += int(counts.sum())

    def _draft(self) -> tuple[NDArray[np.int32], Rows]:
        """Drafts of all texts, and how many tokens each has."""
        growth = self._growth
        if self._drafts is None:
            return np.empty((len(growth), 0), np.int32), np.zeros(len(growth), np.int64)
        # The last token of all is chosen without being read.
        left = self._ending.max_new_tokens - growth.made - 1
        room = np.minimum(growth.room(), left)
        drafts = self._drafts.draft(TextStanding(growth.lanes, growth.tokens, growth.lengths, room))
        known = np.cumprod(drafts >= 0, axis=1).sum(axis=1)
        counts = np.minimum(known, room)
        return drafts[:, : int(counts.max(initial=0))], counts

    def _span(self, drafts: NDArray[np.int32], counts: Rows) -> tuple[Rows, Tokens]:
        """Choose tokens at the places of the span: how many drafted ones stood, and the first."""
        growth = self._growth
        stood, rows = np.zeros(len(growth), np.int64), np.arange(len(growth))
        drawn = np.empty(len(growth), np.int32)
        ended: dict[int, str] = {}
        for place in range(int(counts.max(initial=0)) + 1):
            mixtures = growth.mixtures(rows, place)
            tokens = self._choose(rows, mixtures)
            if place == 0:
                drawn = tokens
            drafted = counts[rows] > place
            same = np.zeros(len(rows), np.bool_)
            if drafted.any():
                same[drafted] = tokens[drafted] == drafts[rows[drafted], place]
            growth.append(rows, tokens, mixtures, same)
            stood[rows] += same
            ended |= self._endings(rows)
            going = same & ~np.isin(rows, list(ended))
            rows = rows[going]
            if not len(rows):
                break
        self._drop(ended)
        return stood, drawn

    def _choose(self, rows: Rows, mixtures: Mixtures) -> Tokens:
        growth, choosing = self._growth, self._choosing
        keys = position_keys(choosing.seed, self._ids[rows], growth.made[rows])
        before = None
        if choosing.looks_back:
            before = [growth.tokens[row, : growth.lengths[row]] for row in rows]
        return choose(mixtures, choosing, keys, before)

    def _endings(self, rows: Rows) -> dict[int, str]:
        """Why texts end with the tokens that they just got, of those that do."""
        growth, found = self._growth, {}
        self._new += len(rows)
        for row in rows:
            if self._watch is not None:
                newest = growth.scores.at((slice(row, row + 1), int(growth.made[row]) - 1))
                self._watch(GrownText(*self._texts[int(row)], newest))
            text = growth.tokens[row, : growth.lengths[row]]
            reason = self._ending.reason(text, int(growth.prompt_lengths[row]))
            if reason is not None:
                found[int(row)] = reason
        return found

    def _drop(self, ended: dict[int, str]) -> None:
        """Take texts that ended out."""
        if not ended:
            return
        for row, reason in ended.items():
            self._grown.append(grown_text(self._growth, row, *self._texts[row], reason))
        left = np.array([row for row in range(len(self._growth)) if row not in ended], np.int64)
        self._texts, self._ids = [self._texts[row] for row in left], self._ids[left]
        self._growth.select(left)


def grown_text(growth: Growth, row: int, prompt: int, copy: int, ending: str) -> GrownText:
    """What became of a text."""
    return GrownText(prompt, copy, growth.scores.at((row, slice(0, int(growth.made[row])))), ending)


def text_id(prompt: Tokens, copy: int) -> np.uint64:
    """Tells texts apart: by their prompts, so that company does not matter, and their copies."""
    return np.uint64(zlib.crc32(prompt.tobytes()) << 32 | copy)
