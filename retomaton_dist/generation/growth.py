"""Texts that grow side by side: what the model read of them, where their walks are, and p.

A *span* is what the last forward pass read of each text: its latest token and, perhaps, drafted
ones behind it. Each place of a span has a query and logits; p at a place is asked for once, in
order, and only for texts that came to it: walks never go back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.generation.hypotheses import DOCUMENT, Guide, Hypotheses, Rows
from retomaton_dist.generation.sampling import Mixtures
from retomaton_dist.generation.span_search import SearchNeed, SpanSearch
from retomaton_dist.lm.growing import begin
from retomaton_dist.lm.stepping import Stepper
from retomaton_dist.methods.knnlm import RandomGate
from retomaton_dist.methods.mixing import Mixing
from retomaton_dist.scores.reading import Reading
from retomaton_dist.scores.seen import steps_since
from retomaton_dist.scores.uniform import uniform
from retomaton_dist.scores.walks import Gate

Tokens = NDArray[np.int32]

LEAST_LOGIT = -1e6


@dataclass(frozen=True)
class Engine:
    """What makes texts grow: the model, the walk (None: the LM alone) and how they are mixed.

    `prefix` is the token that the model reads before a document, as in the corpus, or None.
    """

    stepper: Stepper
    prefix: int | None
    guide: Guide | None
    mixing: Mixing
    gate: Gate | None = None

    def inputs(self, tokens: Tokens) -> Tokens:
        """What the model reads of a text."""
        if self.prefix is None:
            return tokens
        return np.concatenate([np.array([self.prefix], np.int32), tokens])

    @property
    def walks_prompts(self) -> bool:
        """Whether a walk depends on what it came by."""
        return self.guide is not None and not self.guide.spec.forgetful


class Said(NamedTuple):
    """What the LM said at some positions: its logits, and what follows from them.

    Log-probabilities are logits - normals.
    """

    logits: NDArray[np.float32]
    normals: NDArray[np.float64]
    favourites: NDArray[np.int64]
    entropy: NDArray[np.float32]
    confidence: NDArray[np.float32]


def read_logits(logits: Tensor) -> Said:
    """Normalise logits [positions, vocabulary]: few passes, and sums in double precision."""
    exact = logits.float()
    known: NDArray[np.float32] = exact.cpu().numpy()
    rows, favourites = np.arange(len(known)), known.argmax(-1)
    p = torch.softmax(exact, -1)
    # What single precision lost is in the sum of all.
    total, most = p.sum(-1, dtype=torch.float64).cpu().numpy(), p[rows, favourites]
    largest = known[rows, favourites].astype(np.float64)
    normals = largest - np.log(most.double().cpu().numpy()) + np.log(total)
    # Where a model forbids tokens: 0 times a large number is 0, 0 times infinity is not.
    finite = exact if bool(exact.amin() > LEAST_LOGIT) else exact.clamp(min=LEAST_LOGIT)
    mean = p.mul_(finite).sum(-1, dtype=torch.float64).cpu().numpy() / total
    entropy, confidence = (normals - mean).astype(np.float32), largest - normals
    return Said(known, normals, favourites, entropy, confidence.astype(np.float32))


@dataclass
class Facts:
    """What is known of the new tokens of texts, [texts, most]."""

    log_p: NDArray[np.float64]
    log_lm: NDArray[np.float64]
    searched: NDArray[np.bool_]
    matched: NDArray[np.int32]
    accepted: NDArray[np.bool_]

    @classmethod
    def empty(cls, rows: int, most: int) -> "Facts":
        """Nothing yet."""
        shape = rows, most
        searched, accepted = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        return cls(np.zeros(shape), np.zeros(shape), searched, np.zeros(shape, np.int32), accepted)

    def select(self, rows: Rows) -> None:
        """Go on with these texts."""
        for name, column in vars(self).items():
            setattr(self, name, column[rows])


class Growth:
    """Texts from their prompts on, `copies` of each side by side, with room for `most` tokens."""

    def __init__(self, engine: Engine, prompts: Sequence[Tokens], copies: int, most: int) -> None:
        self._engine = engine
        self.searches, self.forwards = 0, 1
        self._search: SpanSearch | None = None
        # Drafted tokens may fall.
        self._need = SearchNeed(believed=0.5)
        sizes = np.array([len(prompt) for prompt in prompts])
        self.tokens = np.zeros((len(prompts), int(sizes.max()) + most), np.int32)
        for row, prompt in zip(self.tokens, prompts, strict=True):
            row[: len(prompt)] = prompt
        self.lengths, self.prompt_lengths = sizes.copy(), sizes
        self.facts = Facts.empty(len(prompts), most)
        inputs = [engine.inputs(prompt) for prompt in prompts]
        self._rows, begun = begin(engine.stepper, inputs, every_query=engine.walks_prompts)
        self._walks: Hypotheses | None = None
        if engine.guide is not None:
            self._walks = Hypotheses(engine.guide, len(prompts) * copies)
            self._pass_prompts(engine.guide, self._walks, begun.queries)
        last = np.stack([found[-1] for found in begun.queries])
        rows = np.repeat(np.arange(len(prompts)), copies)
        self.select(rows)
        logits = begun.logits if copies == 1 else begun.logits[torch.from_numpy(rows)]
        self._begin_span(last[rows, None], logits[:, None], np.ones(len(rows), np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def walks(self) -> Hypotheses | None:
        """The walks, if there are any."""
        return self._walks

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
        self.prompt_lengths = self.prompt_lengths[rows]
        self.facts.select(rows)
        self._rows.select(rows)
        if self._walks is not None:
            self._walks.select(rows)

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
        queries, logits = self._span
        said = read_logits(logits[:, place] if len(rows) == len(self) else logits[rows, place])
        if self._walks is None:
            none = np.empty((len(rows), 0))
            parts = said.logits, said.normals, said.favourites, none.astype(np.int32), none
            return Mixtures(np.ones(len(rows)), *parts, np.zeros(len(rows), np.int64))
        begins = self._walks.positions[rows] < 0
        reading = Reading(
            queries[rows, place],
            np.zeros(len(rows), np.int32),
            np.where(begins, np.int32(-1), self.tokens[rows, self.lengths[rows] - 1]),
            np.zeros(len(rows), np.float32),
            said.entropy,
            said.confidence,
            said.favourites.astype(np.int32),
        )
        shares, tokens, extra, counts = self._walk(self._walks, rows, place, reading)
        parts = said.logits, said.normals, said.favourites, tokens, extra
        return Mixtures(shares, *parts, counts)

    def append(
        self, rows: Rows, tokens: Tokens, mixtures: Mixtures, accepted: NDArray[np.bool_]
    ) -> None:
        """Let texts have the tokens that were chosen from these mixtures."""
        places = self.made[rows]
        self.tokens[rows, self.lengths[rows]] = tokens
        facts = self.facts
        facts.log_p[rows, places], facts.log_lm[rows, places] = mixtures.log_p(tokens)
        facts.accepted[rows, places] = accepted
        if self._walks is not None:
            facts.searched[rows, places] = self._walks.searched[rows]
            facts.matched[rows, places] = self._walks.matched[rows]
        self.lengths[rows] += 1

    def close(self) -> None:
        """End the walks' threads."""
        self._note_searches()
        if self._walks is not None:
            self._walks.lanes.close()

    def _walk(
        self, walks: Hypotheses, rows: Rows, place: int, reading: Reading
    ) -> tuple[NDArray[np.float64], Tokens, NDArray[np.float64], Rows]:
        """Shares of the LM, and the tokens that the automaton adds to, by how much, how many."""
        engine, gate = self._engine, None
        if engine.gate is not None:
            positions = (walks.positions[rows] + 1).astype(np.int32)
            gate = engine.gate(reading, np.full(len(rows), DOCUMENT, np.int32), positions)
        assert self._search is not None
        find = self._search.at(rows, place)
        last = self.tokens[rows, self.lengths[rows] - 1]
        walks.step(rows, last, reading.queries, find, gate)
        logs = engine.mixing.log_shares(walks.seen(rows, reading), walks.walked(rows))
        shares, found = np.exp(logs), walks.distributions(rows)
        # There is room for as many tokens as candidates, but few of these differ.
        most = int(found.counts.max(initial=0))
        added = np.einsum("rv,rvc->rc", shares[:, 1:], found.probabilities[:, :, :most])
        tokens = np.ascontiguousarray(found.tokens[:, :most])
        return shares[:, 0].copy(), tokens, added, found.counts

    def _crop(self) -> None:
        """Have the model forget drafted tokens that do not stand; the latest was not read yet."""
        offset = 0 if self._engine.prefix is None else 1
        self._rows.crop(self.lengths - 1 + offset)

    def _begin_span(self, queries: NDArray[np.float16], logits: Tensor, counts: Rows) -> None:
        self._span = queries, logits
        if self._engine.guide is not None:
            self._note_searches()
            self._search = SpanSearch(self._engine.guide, queries, counts, self._need)

    def _note_searches(self) -> None:
        if self._search is not None:
            self._search.close()
            self.searches += self._search.searches
        self._search = None

    def _pass_prompts(
        self, guide: Guide, walks: Hypotheses, queries: list[NDArray[np.float16]]
    ) -> None:
        """Take the walks to where the last positions of prompts are the next ones."""
        lead = 1 if self._engine.prefix is None else 0
        positions = self.lengths - lead
        if guide.spec.forgetful:
            for row, count in enumerate(positions):
                tokens = self.tokens[row, : self.lengths[row]]
                walks.skip(row, tokens, int(count) - 1, self._since(int(count)))
            return
        padded = np.zeros((len(self), int(positions.max()) + 1, queries[0].shape[1]), np.float16)
        for number, found in enumerate(queries):
            padded[number, : len(found)] = found
        need = SearchNeed(believed=1.0)
        search = SpanSearch(guide, padded, positions, need)
        for place in range(int(positions.max())):
            rows = np.flatnonzero(positions > place)
            before = place - 1 + lead
            tokens = self.tokens[rows, before] if before >= 0 else np.full(len(rows), -1, np.int32)
            walks.step(rows, tokens, padded[rows, place], search.at(rows, place))
            need.note(len(rows), int(walks.searched[rows].sum()))
        self.searches += search.searches

    def _since(self, positions: int) -> int:
        """Steps since the last position that a gate let a walk to that forgets; -1: none yet."""
        gate = self._engine.gate
        if not positions or not isinstance(gate, RandomGate):
            return 0 if positions else -1
        documents = np.full(positions, DOCUMENT, np.int32)
        opened = uniform(documents, np.arange(positions)) >= gate.fraction
        return int(steps_since(documents, opened)[-1])
