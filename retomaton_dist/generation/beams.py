"""Beam search over the mixture: walks follow the hypotheses that are kept.

The rules are those of transformers' `generate(num_beams=..., length_penalty=1)`: of the 2B best
continuations of the B hypotheses of a prompt, the best B that do not end go on; one of the first B
that ends is kept by its log-probability per token. A prompt is done when no hypothesis could get
better than the worst one kept.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.mixture import Mixtures
from retomaton_dist.engine.walker import Rows
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.decoding import Effort
from retomaton_dist.generation.generator import Generator, Tokens
from retomaton_dist.generation.growth import Growth
from retomaton_dist.generation.sampling import SamplingParams
from retomaton_dist.generation.text_request import Ending, GrownText
from retomaton_dist.generation.walk_slots import WalkSlots

Floats = NDArray[np.float64]


class Beams:
    """The hypotheses of one prompt: what they score, and those that ended."""

    def __init__(self, prompt: int, size: int) -> None:
        self.prompt, self.size = prompt, size
        # All begin alike: only the first one counts at first.
        self.scores = np.where(np.arange(size) == 0, 0.0, -np.inf)
        self.ended: list[tuple[float, GrownText]] = []

    def keep(self, score: float, text: GrownText) -> None:
        """Take up a hypothesis that ended, if it is among the best."""
        self.ended.append((score, text))
        self.ended.sort(key=lambda item: -item[0])
        del self.ended[self.size :]

    def is_done(self, length: int) -> bool:
        """Whether no hypothesis of this many new tokens can get better than the worst one kept."""
        full = len(self.ended) == self.size
        return full and not self.scores[0] / length > self.ended[-1][0]


class BeamSearch:
    """Beam search for all prompts side by side: `beams` rows for each, one prompt's together."""

    def __init__(
        self,
        generator: Generator,
        prompts: Sequence[Tokens],
        ending: Ending,
        choosing: SamplingParams,
        beams: int,
        copies: int = 1,
    ) -> None:
        if choosing.do_sample:
            raise BadInput("num_beams with do_sample: beams are not sampled; leave one of them out")
        if copies > beams:
            raise BadInput(
                f"num_return_sequences = {copies}: beam search keeps num_beams = {beams} texts"
            )
        self._ending, self._choosing = ending, choosing
        self._size, self._copies = beams, copies
        self._begun, self._new = time.perf_counter(), 0
        self._walks, self._forwards = WalkSlots(generator, len(prompts) * beams), 0
        self._growth = Growth.begin(generator, self._walks, prompts)
        self._all = [Beams(prompt, beams) for prompt in range(len(prompts))]
        self._open = list(self._all)

    def run(self) -> tuple[list[GrownText], Effort]:
        """Search to the end; the best texts of each prompt, best first."""
        try:
            self._read_prompts()
            growth = self._growth
            while self._step():
                growth.read(np.empty((len(growth), 0), np.int32), np.zeros(len(growth), np.int64))
                self._forwards += 1
            growth.end_span()
        finally:
            self._walks.close()
        grown = [
            replace(text, copy=copy)
            for beams in self._all
            for copy, (_, text) in enumerate(beams.ended[: self._copies])
        ]
        seconds = time.perf_counter() - self._begun
        return grown, Effort(seconds, self._new, self._forwards, self._walks.searches, 0, 0)

    def _read_prompts(self) -> None:
        """Read all prompts, then have as many rows of each as there are beams."""
        left = len(self._all)
        while left:
            left -= len(self._growth.read_prompts())
            self._forwards += 1
        self._growth = self._growth.take(np.repeat(np.arange(len(self._all)), self._size))

    def _step(self) -> bool:
        """Choose the next hypotheses of every prompt; say whether any prompt goes on."""
        growth = self._growth
        mixtures = growth.mixtures(np.arange(len(growth)), 0)
        scores = self._log_p(mixtures)
        sources: list[int] = []
        tokens: list[int] = []
        going: list[Beams] = []
        for place, beams in enumerate(self._open):
            first = place * self._size
            found = self._continue(beams, scores[first : first + self._size], first, mixtures)
            if not beams.is_done(int(growth.texts.made[first]) + 1) and found:
                going.append(beams)
                sources += [row for row, _ in found]
                tokens += [token for _, token in found]
        self._open = going
        if not going:
            return False
        rows = np.array(sources)
        growth.select(rows)
        chosen = np.array(tokens, np.int32)
        growth.append(
            np.arange(len(rows)), chosen, mixtures.select(rows), np.zeros(len(rows), np.bool_)
        )
        self._new += len(rows)
        return True

    def _continue(
        self, beams: Beams, scores: Floats, first: int, mixtures: Mixtures
    ) -> list[tuple[int, int]]:
        """Extend the hypotheses of a prompt: rows and tokens of those that go on, best first."""
        total = beams.scores[:, None] + scores
        order = _best(total.ravel(), 2 * self._size)
        kept: list[tuple[int, int]] = []
        values: list[float] = []
        for rank, item in enumerate(order):
            beam, token = divmod(int(item), total.shape[1])
            row, score = first + beam, float(total.flat[item])
            reason = self._ending_of(row, token)
            if reason is None and len(kept) < self._size:
                kept.append((row, token))
                values.append(score)
            elif reason is not None and rank < self._size and np.isfinite(score):
                text = self._text(beams, row, token, mixtures, reason)
                beams.keep(score / len(text.scores.tokens), text)
        beams.scores = np.array(values + [-np.inf] * (self._size - len(values)))
        return kept if len(kept) == self._size else []

    def _ending_of(self, row: int, token: int) -> str | None:
        """Why a hypothesis ends with this token, if it does."""
        texts = self._growth.texts
        text = np.append(texts.text(row), np.int32(token))
        return self._ending.reason(text, int(texts.prompt_lengths[row]))

    def _text(
        self, beams: Beams, row: int, token: int, mixtures: Mixtures, reason: str
    ) -> GrownText:
        """A hypothesis with the token that it ends with."""
        chosen = np.array([row]), np.array([token], np.int32), mixtures.select(np.array([row]))
        last = self._growth.known(*chosen)
        scores = self._growth.texts.scored(row).append(**last, accepted=False)
        return GrownText(beams.prompt, 0, scores, reason)

    def _log_p(self, mixtures: Mixtures) -> Floats:
        """What a token adds to a hypothesis: its log-probability, penalised if it was there."""
        with np.errstate(divide="ignore"):
            scores = np.log(mixtures.dense())
        texts = self._growth.texts
        if self._choosing.looks_back:
            for row, prompt in enumerate(texts.prompt_lengths.tolist()):
                scores[row] = self._choosing.scores(scores[row], (texts.text(row), prompt))
        return scores


def _best(scores: Floats, count: int) -> Rows:
    """The places of the largest scores, largest first; of equal ones, the first."""
    least = np.partition(scores, -count)[-count] if count < len(scores) else -np.inf
    places = np.flatnonzero(scores >= least)
    best: Rows = places[np.argsort(-scores[places], kind="stable")][:count]
    return best
