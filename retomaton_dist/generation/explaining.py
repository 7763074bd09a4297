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
from retomaton_dist.evaluation.reading import TextReader
from retomaton_dist.generation.hypotheses import DOCUMENT, Guide, Hypotheses, Rows
from retomaton_dist.generation.scoring import LoadedReader, tokenised
from retomaton_dist.lm.reading import Span, WindowReader
from retomaton_dist.scores.reading import Reading
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
    guide, corpus = lm.engine.guide, lm.store.corpus()
    if guide is None:
        return [Support(0, 0, ()) for _ in tokens[first:]]
    reading = _read(lm, tokens)
    found = []
    for position, walk in enumerate(_walks(lm, guide, reading, tokens, corpus.lead)):
        if position + corpus.lead >= first:
            found.append(_support(lm, corpus, walk, int(reading.tokens[position]), most))
    return found


def _read(lm: "RetomatonLM", tokens: NDArray[np.int32]) -> Reading:
    text = tokenised(lm, [tokens])
    windows = WindowReader(text, lm.context, lm.stride, lm.batch_tokens)
    reader: TextReader = LoadedReader(windows, lm.model, lm.lm.device, lm.lm)
    return reader.read([Span(0, 0, int(text.lengths[0]), 0)])


def _walks(
    lm: "RetomatonLM", guide: Guide, reading: Reading, tokens: NDArray[np.int32], lead: int
) -> Iterator[Walk]:
    """The candidates at every position of a text."""
    walks, row = Hypotheses(guide, 1), np.array([0])
    try:
        for position in range(len(reading)):
            before = position + lead - 1
            query = reading.queries[position : position + 1]

            def find(_: Rows, query: NDArray[np.float16] = query) -> NDArray[np.int64]:
                return guide.search(query)

            gate = None
            if lm.engine.gate is not None:
                here = np.array([DOCUMENT], np.int32), np.array([position], np.int32)
                gate = lm.engine.gate(_row(reading, position), *here)
            token = tokens[before] if before >= 0 else -1
            walks.step(row, np.array([token], np.int32), query, find, gate)
            yield walks.lanes.walk(0)
    finally:
        walks.lanes.close()


def _row(reading: Reading, position: int) -> Reading:
    return Reading(*(column[position : position + 1] for column in vars(reading).values()))


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
    here = begin + corpus.lead + position
    before = corpus.tokens[max(begin, here - SNIPPET) : here]
    return document.name, position, lm.tokenizer.decode(before.tolist())
