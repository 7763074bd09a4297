"""Scoring blocks of documents: read, searched and walked, some positions of all at a time."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.plausible import check_lm, check_walk
from retomaton_dist.engine.retrieval import Retrieval
from retomaton_dist.engine.several_stores import (
    FurtherStore,
    JoinedWalker,
    search_all,
    store_walks,
    text_models,
)
from retomaton_dist.engine.text_reader import DocumentBlock, Slab, TextReader, slabs
from retomaton_dist.engine.walker import Find, Rows, Walker
from retomaton_dist.engine.walks import Gate, WalkResult, WalkSpec

PARTS = ("lm", "search", "walk")


@dataclass(frozen=True)
class Pass:
    """One way through a text. A live pass searches only what its walks ask for."""

    name: str
    specs: tuple[WalkSpec, ...]
    live: bool = False
    gate: Gate | None = None


@dataclass(frozen=True)
class SlabScores:
    """What the LM and every walk make of the positions of a slab, row by row."""

    slab: Slab
    lm: LMOutput
    walks: dict[WalkSpec, WalkResult]

    @cached_property
    def places(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Document and position of every row."""
        return self.slab.positions()


class Stopwatch:
    """Seconds by part; a part inside another counts for itself alone."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*PARTS, "rest"), 0.0)
        self._part, self._since = "rest", time.perf_counter()

    @contextlib.contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Have what happens in the block count for `part`."""
        before = self._switch(part)
        try:
            yield
        finally:
            self._switch(before)

    def stop(self) -> dict[str, float]:
        """Seconds of every part until now, and their sum."""
        self._switch(self._part)
        return {**self.seconds, "total": sum(self.seconds.values())}

    def _switch(self, part: str) -> str:
        now, before = time.perf_counter(), self._part
        self.seconds[before] += now - self._since
        self._part, self._since = part, now
        return before


class BlockScorer:
    """Scores documents of one text by one pass; `capped` counts how often walks hit their caps.

    With `further` stores the pass has one walk, that of the main store.
    """

    def __init__(
        self,
        reader: TextReader,
        retrieval: Retrieval,
        chosen: Pass,
        temperatures: tuple[float, ...],
        further: tuple[FurtherStore, ...] = (),
    ) -> None:
        self._reader, self._retrieval, self._pass = reader, retrieval, chosen
        self._further = further
        self._temperatures = temperatures
        self.watch = Stopwatch()
        self.capped: dict[str, list[int]] = {}

    def score(self, block: DocumentBlock) -> Iterator[SlabScores]:
        """Yield the scores of a block, some positions of all its documents at a time."""
        walker = self._walker(block)
        for slab in slabs(block):
            with self.watch.timing("lm"):
                lm = self._reader.read(slab.spans)
            lm = self._with_text_models(slab, lm)
            scores = SlabScores(slab, lm, {})
            check_lm(scores.places, lm)
            if walker is not None:
                with self.watch.timing("walk"):
                    scores.walks.update(self._walk(walker, scores))
                for spec, walked in scores.walks.items():
                    check_walk(scores.places, spec.label, walked, self._retrieval.store)
            yield scores
        if walker is not None:
            walker.close()
            self.capped = walker.capped()

    def _with_text_models(self, slab: Slab, lm: LMOutput) -> LMOutput:
        """The same with what models of text alone say, if any are asked."""
        corpus = self._reader.corpus
        models = text_models(self._retrieval, self._further, self._reader.lm.vocabulary)
        if models is None:
            return lm
        _, positions = slab.positions()
        begins = np.array([corpus.first_token(span.document) for span in slab.spans])
        sizes = [span.last - span.first for span in slab.spans]
        begins = np.repeat(begins, sizes)
        ends = begins + corpus.unpredicted + positions.astype(np.int64)
        text = models.output(corpus.tokens, begins, ends, lm.tokens, lm.favourites)
        return replace(lm, text=text)

    def _walker(self, block: DocumentBlock) -> "Walker | JoinedWalker | None":
        if not self._pass.specs:
            return None
        walker: Walker | JoinedWalker
        if self._further:
            walks = store_walks(self._retrieval, self._pass.specs[0], self._further)
            walker = JoinedWalker(walks, len(block.documents))
        else:
            walker = Walker(self._retrieval.opened, self._pass.specs, len(block.documents))
        walker.begin(np.arange(len(block.documents)), block.documents)
        return walker

    def _walk(
        self, walker: Walker | JoinedWalker, scores: SlabScores
    ) -> dict[WalkSpec, WalkResult]:
        gate = self._pass.gate
        opened = np.ones(len(scores.lm), np.bool_)
        if gate is not None:
            opened = gate(scores.lm, *scores.places)
        before = self._reader.tokens_before(scores.slab.spans, scores.lm)
        find = self._find(scores.lm)
        return walk_slab(walker, scores, before, self._temperatures, find, opened)

    def _find(self, lm: LMOutput) -> Find:
        """What finds the entries nearest to rows; unless live, all are searched for at once."""
        retrieval, specs = self._retrieval.opened, self._pass.specs
        count = retrieval.neighbours(specs)
        walks = store_walks(self._retrieval, specs[0], self._further) if self._further else ()

        def search(rows: Rows) -> NDArray[np.int64]:
            with self.watch.timing("search"):
                if walks:
                    return search_all(walks, lm.queries[rows])
                return retrieval.search(lm.queries[rows], count)

        if self._pass.live or not any(spec.searches for spec in specs):
            return search
        return search(np.arange(len(lm))).__getitem__


def walk_slab(
    walker: Walker | JoinedWalker,
    scores: SlabScores,
    before: NDArray[np.int32],
    temperatures: tuple[float, ...],
    find: Find,
    gate: NDArray[np.bool_],
) -> dict[WalkSpec, WalkResult]:
    """Walk all positions of a slab: the walker's row i is the block's document i.

    `before` are the tokens before each row, `find` finds what is near to rows of the slab.
    """
    slab, lm = scores.slab, scores.lm
    starts = slab.starts
    lasts = starts + [span.last - span.first for span in slab.spans]
    made: dict[WalkSpec, WalkResult] = {}
    for step in range(len(slab.steps)):
        # The longest documents come first.
        rows = starts[starts + step < lasts] + step
        texts = np.arange(len(rows))
        walker.step(
            texts,
            before[rows],
            lm.queries[rows],
            lambda places, rows=rows: find(rows[places]),  # type: ignore[misc]
            gate[rows],
        )
        found = walker.results(temperatures, lm.tokens[rows], lm.favourites[rows])
        for spec, walked in found.items():
            if spec not in made:
                further = len(walked.further)
                made[spec] = WalkResult.empty((len(lm),), temperatures, further)
            made[spec].put(rows, walked)
    return made
