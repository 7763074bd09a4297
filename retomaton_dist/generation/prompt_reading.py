"""Prompts, block by block: their walks are walked, and online weights follow their tokens."""

import numpy as np
import torch
from numpy.typing import NDArray

from retomaton_dist.engine.lm_output import LMOutput, normalise
from retomaton_dist.engine.mixture import temperatures_for
from retomaton_dist.engine.walker import Rows, Walker
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.generation.generator import Generator
from retomaton_dist.generation.span_search import SpanSearch
from retomaton_dist.generation.text_table import TextTable
from retomaton_dist.generation.walk_slots import WalkSlots
from retomaton_dist.lm.text_rows import Stepped


class PromptBlock:
    """The next positions of prompts, `counts[i]` of text `rows[i]`, and what the model gave there.

    Its logits are needed if weights follow the text.
    """

    def __init__(
        self, generator: Generator, texts: TextTable, rows: Rows, counts: Rows, given: Stepped
    ) -> None:
        self._generator, self._texts, self._rows = generator, texts, rows
        self._counts, self._given = counts, given
        # All positions in one line: the place of each in `rows`, and its number in the block.
        self._of_row = np.repeat(np.arange(len(rows)), counts)
        self._first = np.concatenate([[0], np.cumsum(counts)])
        self._places = np.arange(len(self._of_row)) - self._first[self._of_row]
        self._ends = texts.lengths[rows][self._of_row] + self._places
        self._targets = texts.tokens[rows[self._of_row], self._ends]
        self._before = np.where(
            self._ends > 0, texts.tokens[rows[self._of_row], self._ends - 1], np.int32(-1)
        )

    def pass_through(self, walks: WalkSlots) -> None:
        """Have walks and weights go on behind the block."""
        generator, online = self._generator, self._generator.online
        lm = self._lm_output() if online is not None else None
        grid = temperatures_for(generator.point.mixing.experts)
        walked = WalkResult.empty((len(self._of_row),), grid)
        if walks.walker is not None and generator.walks_prompts:
            self._walk(walks.walker, walks, lm, walked, grid)
        if online is not None and lm is not None:
            logs = online.log_columns(lm, walked)
            for place, row in enumerate(self._rows):
                part = logs[self._first[place] : self._first[place + 1]]
                if len(part):
                    online.follow_text(self._texts.weights[row], part)
        self._texts.lengths[self._rows] += self._counts

    def _walk(
        self,
        walker: Walker,
        walks: WalkSlots,
        lm: LMOutput | None,
        walked: WalkResult,
        grid: tuple[float, ...],
    ) -> None:
        spec, need = self._generator.point.spec, walks.need_of_prompts
        assert spec is not None
        queries, slots = self._given.queries, self._texts.slots[self._rows]
        search = SpanSearch(self._generator.search, queries, self._counts, need)
        for place in range(int(self._counts.max(initial=0))):
            rows = np.flatnonzero(self._counts > place)
            at = self._first[rows] + place
            gate = np.ones(len(rows), np.bool_)
            if lm is not None:
                gate = self._generator.gate(
                    lm.rows(at), self._ends[at] - self._generator.unpredicted
                )
            found = search.at(rows, place)
            walker.step(slots[rows], self._before[at], queries[rows, place], found, gate)
            if lm is not None:
                walked.put(at, walker.results(grid, self._targets[at])[spec])
            need.note(len(rows), search.asked_at(place))
        walks.searches += search.searches

    def _lm_output(self) -> LMOutput:
        """What the LM and models of text make of the block's tokens."""
        models, texts = self._generator.text, self._texts
        logits = self._given.logits[self._of_row, self._places].float()
        said = normalise(logits)
        wanted = torch.from_numpy(self._targets.astype(np.int64)).to(logits.device)
        log_lm = logits.gather(1, wanted[:, None])[:, 0].double() - said.normals
        favourites: NDArray[np.int32] = said.favourites.cpu().numpy().astype(np.int32)
        text = None
        if models is not None:
            begins = self._rows[self._of_row] * texts.tokens.shape[1]
            bounds = begins, begins + self._ends
            text = models.output(texts.tokens.ravel(), *bounds, self._targets, favourites)
        lead = self._generator.unpredicted
        return LMOutput(
            self._given.queries[self._of_row, self._places],
            self._targets,
            np.where(self._ends > lead, self._before, np.int32(-1)),
            log_lm.float().cpu().numpy(),
            said.entropy.cpu().numpy(),
            said.confidence.cpu().numpy(),
            favourites,
            text,
        )
