"""Where the tokens of a text come from: the corpus's places that spoke for each.

A finished text is walked once more. Walks depend on the text alone, so these are the candidates
that its tokens were chosen with.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.lanes import Walk
from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.walker import Rows, Walker
from retomaton_dist.engine.walks import WalkSpec
from retomaton_dist.generation.generator import Generator
from retomaton_dist.generation.score import reader_of, tokenised
from retomaton_dist.lm.model_reader import Span
from retomaton_dist.storage.corpus import Corpus

if TYPE_CHECKING:
    from retomaton_dist.generation.loaded import RetomatonLM

# Tokens of the corpus that are shown before a source.
SNIPPET = 8


@dataclass(frozen=True)
class CorpusSource:
    """An entry that has the token as its value: `before` is the text in front of it.

    `pointed`: the walk led to it; else a restart found it.
    """

    entry: int
    document: str
    position: int
    before: str
    distance: float
    pointed: bool


@dataclass(frozen=True)
class Support:
    """What spoke for one token: so many of the candidates have it, and the nearest of them."""

    candidates: int
    alike: int
    sources: tuple[CorpusSource, ...]


def explain(lm: "RetomatonLM", tokens: NDArray[np.int32], first: int, most: int) -> list[Support]:
    """What spoke for the tokens of a text from number `first` on, with `most` sources each."""
    if lm.point.spec is None:
        return [Support(0, 0, ()) for _ in tokens[first:]]
    text, corpus = tokenised(lm, [tokens]), lm.store.corpus()
    reader, spans = reader_of(lm, text), [Span(0, 0, int(text.lengths[0]), 0)]
    read = reader.read(spans)
    before = reader.tokens_before(spans, read)
    return [
        _support(lm, corpus, walk, int(read.tokens[position]), most)
        for position, walk in enumerate(_walks(lm.generator, lm.point.spec, read, before))
        if position + corpus.unpredicted >= first
    ]


def _walks(
    generator: Generator, spec: WalkSpec, read: LMOutput, before: NDArray[np.int32]
) -> Iterator[Walk]:
    """The candidates at every position of a text."""
    walked = generator.walks[0]
    walker, row = Walker(walked.retrieval, [spec], 1), np.array([0])
    lanes, lane = walker.lanes(spec)
    try:
        for position in range(len(read)):
            here = read.rows(slice(position, position + 1))
            queries = here.queries

            def find(_: Rows, queries: NDArray[np.float16] = queries) -> NDArray[np.int64]:
                return walked.retrieval.search(queries, walked.neighbours)

            gate = generator.gate(here, np.array([position]))
            walker.step(row, before[position : position + 1], queries, find, gate)
            yield lanes.walk(lane)
    finally:
        walker.close()


def _support(lm: "RetomatonLM", corpus: Corpus, walk: Walk, token: int, most: int) -> Support:
    alike = np.flatnonzero(walk.values == token)
    nearest = alike[np.argsort(walk.distances[alike], kind="stable")]
    _, firsts = np.unique(walk.entries[nearest], return_index=True)
    chosen = nearest[np.sort(firsts)][:most]
    sources = tuple(
        CorpusSource(
            int(walk.entries[i]),
            *_place(lm, corpus, int(walk.entries[i])),
            float(walk.distances[i]),
            bool(walk.pointed[i]),
        )
        for i in chosen
    )
    return Support(len(walk.values), len(alike), sources)


def _place(lm: "RetomatonLM", corpus: Corpus, entry: int) -> tuple[str, int, str]:
    """Document and position of an entry, and what is before it."""
    document = corpus[corpus.document_of(entry)]
    position = entry - document.first_entry
    begin = corpus.first_token(document.number)
    here = begin + corpus.unpredicted + position
    before = corpus.tokens[max(begin, here - SNIPPET) : here]
    return document.name, position, lm.tokenizer.decode(before.tolist())
