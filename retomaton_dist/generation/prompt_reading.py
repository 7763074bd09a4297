"""Prompts as weights follow them: what the LM, the walk and models of text make of each token."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.engine.lm_output import LMOutput, normalise
from retomaton_dist.engine.mixture import Floats, temperatures_for
from retomaton_dist.engine.several_stores import JoinedWalker
from retomaton_dist.engine.walker import Rows
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.generation.generator import Generator, Tokens


class PromptReading:
    """What the LM and the walk make of the tokens of prompts, for weights to follow them."""

    def __init__(self, generator: Generator, tokens: Tokens, lengths: Rows) -> None:
        self._generator, self._tokens = generator, tokens
        self._positions = lengths - generator.lead
        self._first = np.concatenate([[0], np.cumsum(self._positions)])
        total, experts = int(self._first[-1]), generator.point.mixing.experts
        self._lm = LMOutput(
            np.empty((total, 0), np.float16),
            np.concatenate(
                [row[generator.lead : size] for row, size in zip(tokens, lengths, strict=True)]
            ),
            np.full(total, -1, np.int32),
            np.zeros(total, np.float32),
            np.zeros(total, np.float32),
            np.zeros(total, np.float32),
            np.zeros(total, np.int32),
        )
        self._grid = temperatures_for(experts)
        further = max(0, len(generator.walks) - 1)
        self._walked = WalkResult.empty((total,), self._grid, further)

    def see(self, row: int, first: int, logits: Tensor) -> None:
        """Note what the LM says at positions of a prompt; the last is not of a token that is."""
        count = min(len(logits), int(self._positions[row]) - first)
        if count <= 0:
            return
        begin = int(self._first[row]) + first
        place, made, part = slice(begin, begin + count), self._lm, logits[:count].float()
        said = normalise(part)
        wanted = torch.from_numpy(made.tokens[place].astype(np.int64)).to(part.device)
        log_lm = part.gather(1, wanted[:, None])[:, 0].double() - said.normals
        made.log_lm[place] = log_lm.float().cpu().numpy()
        made.entropy[place] = said.entropy.cpu().numpy()
        made.confidence[place] = said.confidence.cpu().numpy()
        made.favourites[place] = said.favourites.cpu().numpy()

    def gate(self, rows: Rows, place: int) -> NDArray[np.bool_]:
        """Where the walk may search at a position of these prompts."""
        lm = self._lm.rows(self._first[rows] + place)
        return self._generator.gate(lm, np.full(len(rows), place))

    def walked_to(self, walker: JoinedWalker, rows: Rows, place: int) -> None:
        """Note what walks came to at a position of these prompts."""
        at = self._first[rows] + place
        spec = self._generator.point.spec
        assert spec is not None
        self._walked.put(at, walker.results(self._grid, self._lm.tokens[at])[spec])

    def columns(self) -> list[Floats]:
        """What online mixing follows, prompt by prompt."""
        online, models, lm = self._generator.online, self._generator.text, self._lm
        assert online is not None
        if models is not None:
            begins = np.repeat(np.arange(len(self._positions)), self._positions)
            begins = begins * self._tokens.shape[1]
            places = np.arange(len(lm)) - np.repeat(self._first[:-1], self._positions)
            ends = begins + places + self._generator.lead
            flat = self._tokens.ravel()
            lm = replace(lm, text=models.output(flat, begins, ends, lm.tokens, lm.favourites))
        return np.split(online.log_columns(lm, self._walked), self._first[1:-1])
