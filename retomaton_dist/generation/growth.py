"""Texts that grow side by side: what the model read of them, where their walks are, and p.

A *span* is what the last forward pass read of each text: its latest token and, perhaps, drafted
ones behind it. Each place of a span has a query and logits; p at a place is asked for once, in
order, and only for texts that came to it: walks never go back.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.automaton.lanes import Distributions, Lanes
from retomaton_dist.engine.lm_output import LMOutput, Normalised, normalise
from retomaton_dist.engine.mixture import (
    ExpertDistributions,
    Mixtures,
    candidates_of,
    mixtures,
    temperatures_for,
)
from retomaton_dist.engine.online import OnlineMixing
from retomaton_dist.engine.scores import steps_since
from retomaton_dist.engine.several_stores import JoinedWalker, of_all_stores
from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.engine.uniform import uniform
from retomaton_dist.engine.walker import Rows
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.generation.generator import DOCUMENT, Generator, Tokens
from retomaton_dist.generation.prompt_reading import PromptReading
from retomaton_dist.generation.span_search import SearchNeed, SpanSearch
from retomaton_dist.lm.paired_rows import begin
from retomaton_dist.methods.knnlm import RandomGate


class Growth:
    """Texts from their prompts on, `copies` of each side by side, with room for `most` tokens."""

    def __init__(
        self, generator: Generator, prompts: Sequence[Tokens], copies: int, most: int
    ) -> None:
        self._generator = generator
        self.searches, self.forwards = 0, 1
        self._search: SpanSearch | None = None
        # Drafted tokens may fall.
        self._need = SearchNeed(believed=0.5)
        sizes = np.array([len(prompt) for prompt in prompts])
        self.tokens = np.zeros((len(prompts), int(sizes.max()) + most), np.int32)
        for row, prompt in zip(self.tokens, prompts, strict=True):
            row[: len(prompt)] = prompt
        self.lengths, self.prompt_lengths = sizes.copy(), sizes
        self.scores = TokenScores.empty(len(prompts), most)
        inputs = [generator.inputs(prompt) for prompt in prompts]
        online = generator.online
        self._weights = np.empty((len(prompts), 0)) if online is None else online.begin(len(sizes))
        read = PromptReading(generator, self.tokens, sizes) if online else None
        watch = None if read is None else read.see
        every = generator.walks_prompts
        self._rows, begun = begin(generator.stepper, inputs, every_query=every, watch=watch)
        self._walker = generator.walker(len(prompts) * copies)
        # What came of the last step of each text's walk.
        self._searched = np.zeros(len(prompts), np.bool_)
        self._matched, self._states = (np.zeros(len(prompts), np.int32) for _ in range(2))
        if self._walker is not None:
            self._pass_prompts(self._walker, begun.queries, read)
        if online is not None and read is not None:
            for weights, logs in zip(self._weights, read.columns(), strict=True):
                online.follow_text(weights, logs)
        last = np.stack([found[-1] for found in begun.queries])
        rows = np.repeat(np.arange(len(prompts)), copies)
        self.select(rows)
        logits = begun.logits if copies == 1 else begun.logits[torch.from_numpy(rows)]
        self._begin_span(last[rows, None], logits[:, None], np.ones(len(rows), np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def lanes(self) -> Lanes | None:
        """The lanes of the walk, lane i that of text i; None if nothing is walked."""
        return self._walker.lanes() if self._walker else None

    @property
    def made(self) -> Rows:
        """How many tokens each text has beyond its prompt."""
        made: Rows = self.lengths - self.prompt_lengths
        return made

    def room(self) -> Rows:
        """How many tokens can be drafted for each text."""
        self._crop()
        room: Rows = self._rows.room() - 1
        return room

    def last(self) -> Tokens:
        """The latest token of each text."""
        last: Tokens = self.tokens[np.arange(len(self)), self.lengths - 1]
        return last

    def select(self, rows: Rows) -> None:
        """Go on with these texts, in this order; one may be there several times.

        Their spans are over: the next thing is to `read`.
        """
        if len(rows) == len(self) and (rows == np.arange(len(rows))).all():
            return
        self.tokens, self.lengths = self.tokens[rows], self.lengths[rows]
        self.prompt_lengths, self._weights = self.prompt_lengths[rows], self._weights[rows]
        self.scores = self.scores.at(rows)
        self._searched, self._matched = self._searched[rows], self._matched[rows]
        self._states = self._states[rows]
        self._rows.select(rows)
        if self._walker is not None:
            self._walker.select(rows)

    def read(self, drafts: NDArray[np.int32], counts: Rows) -> None:
        """Read the latest token of each text, and the first `counts` drafted ones behind it."""
        self._crop()
        tokens = np.zeros((len(self), 1 + drafts.shape[1]), np.int64)
        tokens[:, 0] = self.last()
        tokens[:, 1:] = np.maximum(drafts, 0)
        found = self._rows.extend(tokens, counts + 1)
        self.forwards += 1
        self._begin_span(found.queries, found.logits, counts + 1)

    def mixtures(self, rows: Rows, place: int) -> Mixtures:
        """Have the walks of texts come to a place of their spans; p there."""
        queries, spans = self._span
        logits = (spans[:, place] if len(rows) == len(self) else spans[rows, place]).float()
        said, known = normalise(logits), logits.cpu().numpy()
        mixing, online = self._generator.point.mixing, self._generator.online
        walker = self._walker
        lm = self._lm_output(rows, queries[rows, place], said)
        walked = WalkResult.empty((len(rows),), (1.0,))
        candidates: tuple[Distributions, ...] = ()
        if walker is not None:
            walked = self._walk(walker, rows, place, lm)
            candidates = walker.distributions(candidates_of(mixing.experts))
        models = self._generator.text
        text = None if models is None else models.distributions(*self._texts(rows))
        if online is None:
            assert not isinstance(mixing, OnlineMixing)
            shares, learned = mixing.shares(lm, walked), None
        else:
            learned = online.learned_shares(lm, walked)
            shares = online.shares(self._weights[rows], learned, walked)
        experts = ExpertDistributions(mixing.experts, candidates, text, learned)
        return mixtures(shares, known, said, experts)

    def append(
        self, rows: Rows, tokens: Tokens, chosen: Mixtures, accepted: NDArray[np.bool_]
    ) -> None:
        """Let texts have the tokens that were chosen from these mixtures."""
        place = rows, self.made[rows]
        self.tokens[rows, self.lengths[rows]] = tokens
        known = self.known(rows, tokens, chosen)
        self.scores.put(place, **known, accepted=accepted)
        self.lengths[rows] += 1
        online = self._generator.online
        if online is not None:
            weights = self._weights[rows]
            p = chosen.experts.probabilities(tokens, np.exp(known["log_lm"]))
            online.follow(weights, chosen.experts.learned, p)
            self._weights[rows] = weights

    def known(self, rows: Rows, tokens: Tokens, chosen: Mixtures) -> dict[str, NDArray[Any]]:
        """What is known of tokens that are chosen from these mixtures; of what was drafted, not."""
        log_p, log_lm = chosen.log_p(tokens)
        return {
            "tokens": tokens,
            "log_p": log_p,
            "log_lm": log_lm,
            "searched": self._searched[rows],
            "matched": self._matched[rows],
            "states": self._states[rows],
        }

    def close(self) -> None:
        """End the walks' threads."""
        self._note_searches()
        if self._walker is not None:
            self._walker.close()

    def _lm_output(self, rows: Rows, queries: NDArray[np.float16], said: Normalised) -> LMOutput:
        """What the LM says behind the latest tokens of texts; there is no next token yet."""
        previous = self.tokens[rows, self.lengths[rows] - 1]
        if self._walker is not None:
            previous = np.where(self._walker.positions[rows] < 0, np.int32(-1), previous)
        favourites, models = said.favourites.cpu().numpy().astype(np.int32), self._generator.text
        return LMOutput(
            queries,
            np.zeros(len(rows), np.int32),
            previous,
            np.zeros(len(rows), np.float32),
            said.entropy.cpu().numpy(),
            said.confidence.cpu().numpy(),
            favourites,
            None if models is None else models.output(*self._texts(rows), None, favourites),
        )

    def _texts(self, rows: Rows) -> tuple[Tokens, Rows, Rows]:
        """Where the tokens of texts are: an array of many, and the bounds of each."""
        begins = rows * self.tokens.shape[1]
        return self.tokens.ravel(), begins, begins + self.lengths[rows]

    def _walk(self, walker: JoinedWalker, rows: Rows, place: int, lm: LMOutput) -> WalkResult:
        """Take the walks of texts to their next positions."""
        generator = self._generator
        assert self._search is not None
        assert generator.point.spec is not None
        gate = generator.gate(lm, walker.positions[rows] + 1)
        last = self.tokens[rows, self.lengths[rows] - 1]
        walker.step(rows, last, lm.queries, self._search.at(rows, place), gate)
        grid = temperatures_for(generator.point.mixing.experts)
        walked = walker.results(grid)[generator.point.spec]
        self._searched[rows], self._matched[rows], self._states[rows] = of_all_stores(walked)
        return walked

    def _crop(self) -> None:
        """Have the model forget drafted tokens that do not stand; the latest was not read yet."""
        offset = 0 if self._generator.prefix is None else 1
        self._rows.crop(self.lengths - 1 + offset)

    def _begin_span(self, queries: NDArray[np.float16], logits: Tensor, counts: Rows) -> None:
        self._span = queries, logits
        if self._walker is not None:
            self._note_searches()
            self._search = SpanSearch(self._generator.search, queries, counts, self._need)

    def _note_searches(self) -> None:
        if self._search is not None:
            self._search.close()
            self.searches += self._search.searches
        self._search = None

    def _pass_prompts(
        self, walker: JoinedWalker, queries: list[NDArray[np.float16]], read: PromptReading | None
    ) -> None:
        """Take the walks to where the last positions of prompts are the next ones."""
        lead = self._generator.lead
        positions = self.lengths - lead
        if not self._generator.walks_prompts:
            for row, count in enumerate(positions):
                tokens = self.tokens[row, : self.lengths[row]]
                walker.skip(row, tokens, int(count) - 1, self._since(int(count)))
            return
        padded = np.zeros((len(self), int(positions.max()) + 1, queries[0].shape[1]), np.float16)
        for number, found in enumerate(queries):
            padded[number, : len(found)] = found
        need = SearchNeed(believed=1.0)
        search = SpanSearch(self._generator.search, padded, positions, need)
        for place in range(int(positions.max())):
            rows = np.flatnonzero(positions > place)
            before = place - 1 + lead
            tokens = self.tokens[rows, before] if before >= 0 else np.full(len(rows), -1, np.int32)
            opened = np.ones(len(rows), np.bool_)
            if read is not None:
                opened = read.gate(rows, place)
            walker.step(rows, tokens, padded[rows, place], search.at(rows, place), opened)
            if read is not None:
                read.walked_to(walker, rows, place)
            need.note(len(rows), search.asked_at(place))
        self.searches += search.searches

    def _since(self, positions: int) -> int:
        """Steps since the last position that a gate let a walk to that forgets; -1: none yet."""
        gate = self._generator.point.gate
        if not positions or not isinstance(gate, RandomGate):
            return 0 if positions else -1
        documents = np.full(positions, DOCUMENT, np.int32)
        opened = uniform(documents, np.arange(positions)) >= gate.fraction
        return int(steps_since(documents, opened)[-1])
