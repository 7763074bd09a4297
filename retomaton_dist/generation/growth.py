"""Texts that grow side by side: what the model read of them, where their walks are, and p.

A *span* is what the last forward pass read of each text: its latest token and, perhaps, drafted
ones behind it. Each place of a span has a query and logits; p at a place is asked for once, in
order, and only for texts that came to it: walks never go back. Prompts are read before that, a
block of each at a time; what the last tokens of prompts gave is the first span.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
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
from retomaton_dist.engine.uniform import uniform
from retomaton_dist.engine.walker import Rows
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.generation.generator import DOCUMENT, Generator, Tokens
from retomaton_dist.generation.prompt_reading import PromptBlock
from retomaton_dist.generation.span_search import SpanSearch
from retomaton_dist.generation.text_table import TextTable
from retomaton_dist.generation.walk_slots import WalkSlots
from retomaton_dist.lm.paired_rows import PairedRows
from retomaton_dist.lm.text_rows import GrowingRows, Stepped
from retomaton_dist.methods.knnlm import RandomGate

# Tokens of a prompt that one forward pass reads: others wait for it.
BLOCK = 256

Span = tuple[NDArray[np.float16], Tensor]
SeePrompt = Callable[[Rows, Tokens, Mixtures], None]
"""Is told of texts, the tokens of their prompts that come next, and the mixtures there."""


class Growth:
    """Texts that are read by the same forward passes; `texts` is what is known of them."""

    def __init__(
        self,
        generator: Generator,
        walks: WalkSlots,
        texts: TextTable,
        rows: GrowingRows | PairedRows,
    ) -> None:
        self._generator, self._walks, self.texts, self._rows = generator, walks, texts, rows
        self._span: Span | None = None
        self._search: SpanSearch | None = None

    @classmethod
    def begin(
        cls,
        generator: Generator,
        walks: WalkSlots,
        prompts: Sequence[Tokens],
        *,
        scored: bool = False,
    ) -> "Growth":
        """Texts of which nothing is read yet; `scored`: the tokens of prompts are scored, too."""
        count, online = len(prompts), generator.online
        weights = np.empty((count, 0)) if online is None else online.begin(count)
        slots = walks.begin(count)
        texts = TextTable.begin(prompts, generator.unpredicted, weights, slots, scored)
        return cls(generator, walks, texts, generator.rows(count))

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def lanes(self) -> Lanes | None:
        """The lanes of the walk, that of text i at `texts.slots[i]`; None if nothing is walked."""
        walker = self._walks.walker
        return walker.lanes() if walker else None

    def room(self) -> Rows:
        """How many tokens can be drafted for each text."""
        self._crop()
        room: Rows = self._rows.room() - 1
        return room

    def read_prompts(self, see: SeePrompt | None = None) -> Rows:
        """Read the next block of every prompt; the texts whose prompts are read now.

        `see` is told of every token if they are scored: then all texts are in their prompts.
        """
        texts, offset = self.texts, self._offset
        left = texts.prompt_lengths + offset - self._rows.lengths
        rows = np.flatnonzero(left > 0)
        counts = np.minimum(np.minimum(left, self._rows.room())[rows], BLOCK)
        first = self._rows.lengths[rows]
        # The inputs are the tokens, behind the prefix if there is one.
        places = first[:, None] - offset + np.arange(int(counts.max()))
        inputs = texts.tokens[rows[:, None], np.clip(places, 0, texts.tokens.shape[1] - 1)]
        inputs = np.where(places < 0, self._generator.prefix or 0, inputs)
        every = see is not None or self._generator.online is not None
        found = self._rows.extend(inputs.astype(np.int64), counts, rows, last_only=not every)
        # The last input of all is no position of the prompt: it gives the first new token.
        passed = counts - (counts == left[rows])
        if see is not None:
            self._score_block(passed, found, see)
        elif passed.any():
            PromptBlock(self._generator, texts, rows, passed, found).pass_through(self._walks)
        done = np.flatnonzero(counts == left[rows])
        self._note_ends(rows, done, counts, found)
        return rows[done]

    def read(self, drafts: NDArray[np.int32], counts: Rows) -> None:
        """Read the latest token of each text, and the first `counts` drafted ones behind it."""
        self._crop()
        tokens = np.zeros((len(self), 1 + drafts.shape[1]), np.int64)
        tokens[:, 0] = self.texts.latest(np.arange(len(self)))
        tokens[:, 1:] = np.maximum(drafts, 0)
        found = self._rows.extend(tokens, counts + 1)
        self._begin_span((found.queries, found.logits), counts + 1)

    def mixtures(self, rows: Rows, place: int) -> Mixtures:
        """Have the walks of texts come to a place of their spans; p there."""
        assert self._span is not None
        queries, spans = self._span
        logits = (spans[:, place] if len(rows) == len(self) else spans[rows, place]).float()
        said, known = normalise(logits), logits.cpu().numpy()
        mixing, online = self._generator.point.mixing, self._generator.online
        walker = self._walks.walker
        lm = self._lm_output(rows, queries[rows, place], said)
        walked = WalkResult.empty((len(rows),), (1.0,))
        candidates: tuple[Distributions, ...] = ()
        if walker is not None:
            walked = self._walk(walker, rows, place, lm)
            candidates = walker.distributions(candidates_of(mixing.experts))
        models = self._generator.text
        text = None if models is None else models.distributions(*self._bounds(rows))
        if online is None:
            assert not isinstance(mixing, OnlineMixing)
            shares, learned = mixing.shares(lm, walked), None
        else:
            learned = online.learned_shares(lm, walked)
            shares = online.shares(self.texts.weights[rows], learned, walked)
        experts = ExpertDistributions(mixing.experts, candidates, text, learned)
        return mixtures(shares, known, said, experts)

    def append(
        self, rows: Rows, tokens: Tokens, chosen: Mixtures, accepted: NDArray[np.bool_]
    ) -> None:
        """Let texts have the tokens that were chosen from these mixtures."""
        known = self.known(rows, tokens, chosen)
        self.texts.append(rows, accepted=accepted, **known)
        online = self._generator.online
        if online is not None:
            weights = self.texts.weights[rows]
            p = chosen.experts.probabilities(tokens, np.exp(known["log_lm"]))
            online.follow(weights, chosen.experts.learned, p)
            self.texts.weights[rows] = weights

    def known(self, rows: Rows, tokens: Tokens, chosen: Mixtures) -> dict[str, NDArray[Any]]:
        """What is known of tokens that are chosen from these mixtures; of what was drafted, not."""
        log_p, log_lm = chosen.log_p(tokens)
        return {
            "tokens": tokens,
            "log_p": log_p,
            "log_lm": log_lm,
            "searched": self.texts.searched[rows],
            "matched": self.texts.matched[rows],
            "states": self.texts.states[rows],
        }

    def select(self, rows: Rows) -> None:
        """Go on with these texts, in this order; one may be there several times. Others end.

        Their spans are over: the next thing is to `read`.
        """
        if np.array_equal(rows, np.arange(len(self))):
            return
        before = self.texts.slots
        self._walks.release(np.delete(before, rows))
        self._keep(rows)
        self.texts.slots = self._walks.chosen(before, rows)

    def take(self, rows: Rows) -> "Growth":
        """Texts whose prompts are read go on elsewhere, with their first span.

        One may be named several times, and goes on as often.
        """
        assert self._span is not None
        texts = self.texts.at(rows)
        texts.slots = self._walks.chosen(self.texts.slots, rows)
        part = Growth(self._generator, self._walks, texts, self._rows.take(rows))
        queries, logits = self._span
        part._begin_span((queries[rows], logits[rows]), np.ones(len(rows), np.int64))
        self._keep(np.delete(np.arange(len(self)), rows))
        self._span = None
        return part

    def join(self, others: "Growth") -> None:
        """Have other texts go on behind these; the next thing is to `read`."""
        others.end_span()
        self.texts.join(others.texts)
        # Rows of one generator are of one kind.
        self._rows.join(others._rows)  # type: ignore[arg-type]

    def end_span(self) -> None:
        """Take note of what was searched for the last span."""
        if self._search is not None:
            self._search.close()
            self._walks.searches += self._search.searches
        self._search = None

    @property
    def _offset(self) -> int:
        """How many inputs come before the first token."""
        return 0 if self._generator.prefix is None else 1

    def _keep(self, rows: Rows) -> None:
        self.texts = self.texts.at(rows)
        self._rows.select(rows)

    def _score_block(self, counts: Rows, found: Stepped, see: SeePrompt) -> None:
        """Have texts come through a block of their prompts as if its tokens were chosen."""
        self._begin_span((found.queries, found.logits), counts)
        for place in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > place)
            tokens = self.texts.tokens[rows, self.texts.lengths[rows]]
            made = self.mixtures(rows, place)
            see(rows, tokens, made)
            self.append(rows, tokens, made, np.zeros(len(rows), np.bool_))
        self._span = None

    def _note_ends(self, rows: Rows, done: Rows, counts: Rows, found: Stepped) -> None:
        """Keep what the last tokens of prompts gave as the first span of their texts."""
        if not len(done):
            return
        last = counts[done] - 1
        logits = found.logits[done, last if found.logits.shape[1] > 1 else 0]
        if self._span is None:
            self._span = (
                np.zeros((len(self), 1, found.queries.shape[2]), np.float16),
                logits.new_zeros((len(self), 1, logits.shape[-1])),
            )
        self._span[0][rows[done], 0] = found.queries[done, last]
        self._span[1][rows[done], 0] = logits
        walker = self._walks.walker
        if walker is not None and not self._generator.walks_prompts:
            for row in rows[done]:
                count = int(self.texts.lengths[row]) - self._generator.unpredicted
                place = int(self.texts.slots[row])
                walker.skip(place, self.texts.text(row), count - 1, self._since(count))

    def _lm_output(self, rows: Rows, queries: NDArray[np.float16], said: Normalised) -> LMOutput:
        """What the LM says behind the latest tokens of texts; there is no next token yet."""
        first = self.texts.lengths[rows] <= self._generator.unpredicted
        favourites = said.favourites.cpu().numpy().astype(np.int32)
        models, online = self._generator.text, self._generator.online
        text = None
        # Only learned mixing looks at what models of text know before the token.
        if models is not None and online is not None and online.learned is not None:
            text = models.output(*self._bounds(rows), None, favourites)
        return LMOutput(
            queries,
            np.zeros(len(rows), np.int32),
            np.where(first, np.int32(-1), self.texts.latest(rows)),
            np.zeros(len(rows), np.float32),
            said.entropy.cpu().numpy(),
            said.confidence.cpu().numpy(),
            favourites,
            text,
        )

    def _bounds(self, rows: Rows) -> tuple[Tokens, Rows, Rows]:
        """Where the tokens of texts are: an array of many, and the bounds of each."""
        begins = rows * self.texts.tokens.shape[1]
        return self.texts.tokens.ravel(), begins, begins + self.texts.lengths[rows]

    def _walk(self, walker: JoinedWalker, rows: Rows, place: int, lm: LMOutput) -> WalkResult:
        """Take the walks of texts to their next positions."""
        generator, texts = self._generator, self.texts
        assert self._search is not None
        assert generator.point.spec is not None
        gate = generator.gate(lm, texts.lengths[rows] - generator.unpredicted)
        find = self._search.at(rows, place)
        walker.step(texts.slots[rows], texts.latest(rows), lm.queries, find, gate)
        grid = temperatures_for(generator.point.mixing.experts)
        walked = walker.results(grid)[generator.point.spec]
        texts.searched[rows], texts.matched[rows], texts.states[rows] = of_all_stores(walked)
        return walked

    def _crop(self) -> None:
        """Have the model forget drafted tokens that do not stand; the latest was not read yet."""
        self._rows.crop(self.texts.lengths - 1 + self._offset)

    def _begin_span(self, span: Span, counts: Rows) -> None:
        self.end_span()
        self._span = span
        if self._walks.walker is not None:
            need = self._walks.need_of_spans
            self._search = SpanSearch(self._generator.search, span[0], counts, need)

    def _since(self, positions: int) -> int:
        """Steps since the last position that a gate let a walk to that forgets; -1: none yet."""
        gate = self._generator.point.gate
        if not positions or not isinstance(gate, RandomGate):
            return 0 if positions else -1
        documents = np.full(positions, DOCUMENT, np.int32)
        opened = uniform(documents, np.arange(positions)) >= gate.fraction
        return int(steps_since(documents, opened)[-1])
