"""Scoring texts: read, walked and mixed in this process, just as an evaluation does."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.block_scores import BlockScorer, Pass
from retomaton_dist.engine.mixture import Floats, temperatures_for
from retomaton_dist.engine.online import OnlineMixing, log_target
from retomaton_dist.engine.several_stores import of_all_stores
from retomaton_dist.engine.text_reader import DocumentBlock, QueryReader, TextReader, blocks
from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.errors import BadInput
from retomaton_dist.lm.model_reader import WindowReader
from retomaton_dist.storage.corpus import CorpusInMemory

if TYPE_CHECKING:
    from retomaton_dist.generation.loaded import RetomatonLM

Scorable = str | Sequence[int] | NDArray[np.int32]
"""A text, or its tokens."""


def score(lm: "RetomatonLM", texts: Sequence[Scorable]) -> list[TokenScores]:
    """Score texts, each as a document; text is tokenised as the corpus was, tokens stay."""
    corpus = tokenised(lm, texts)
    specs = () if lm.point.spec is None else (lm.point.spec,)
    chosen = Pass("score", specs, live=True, gate=lm.point.gate)
    temperatures = temperatures_for(lm.point.mixing.experts)
    reader = reader_of(lm, corpus)
    scorer = BlockScorer(reader, lm.retrieval, chosen, temperatures, lm.further)
    found: dict[int, TokenScores] = {}
    for block in blocks(range(len(texts)), corpus.lengths):
        found |= _scored(lm, scorer, block, temperatures)
    return [found[number] for number in range(len(texts))]


def reader_of(lm: "RetomatonLM", corpus: CorpusInMemory) -> TextReader:
    """The loaded models over texts."""
    windows = WindowReader(corpus, lm.context, lm.stride, lm.batch_tokens)
    queries, keys = None, lm.key_model
    if keys is not None:
        others = WindowReader(corpus, keys.context, keys.stride, lm.batch_tokens)
        queries = QueryReader(others, keys.spec, keys.lm.device, keys.lm)
    return TextReader(windows, lm.model, lm.lm.device, lm.lm, queries)


def tokenised(lm: "RetomatonLM", texts: Sequence[Scorable]) -> CorpusInMemory:
    """Texts as documents of a corpus; one without anything to predict is refused."""
    corpus = lm.store.corpus()
    documents = [
        lm.encode(text) if isinstance(text, str) else np.asarray(text, np.int32) for text in texts
    ]
    for number, tokens in enumerate(documents):
        if len(tokens) <= corpus.unpredicted:
            raise BadInput(f"text {number} has no token to score: give some text")
        if tokens.min() < 0 or tokens.max() >= corpus.vocabulary:
            raise BadInput(f"text {number} has a token outside 0..{corpus.vocabulary - 1}")
    return CorpusInMemory.of(documents, corpus.prefix, corpus.vocabulary)


def _scored(
    lm: "RetomatonLM",
    scorer: BlockScorer,
    block: DocumentBlock,
    temperatures: tuple[float, ...],
) -> dict[int, TokenScores]:
    room = {
        int(number): TokenScores.empty(int(length))
        for number, length in zip(block.documents, block.lengths, strict=True)
    }
    mixing = lm.point.mixing
    columns: dict[int, list[Floats]] = {}
    for part in scorer.score(block):
        nothing = WalkResult.empty((len(part.lm),), temperatures)
        walked = nothing if lm.point.spec is None else part.walks[lm.point.spec]
        if isinstance(mixing, OnlineMixing):
            # Weights follow a whole document: it is mixed when all of it was read.
            logs, log_p = mixing.log_columns(part.lm, walked), np.zeros(len(part.lm))
            for span in part.slab.spans:
                rows = slice(span.row, span.row + span.last - span.first)
                columns.setdefault(span.document, []).append(logs[rows])
        else:
            log_p = log_target(mixing, part.lm, walked, part.places[0])
        searched, matched, states = of_all_stores(walked)
        for span in part.slab.spans:
            rows = slice(span.row, span.row + span.last - span.first)
            room[span.document].put(
                slice(span.first, span.last),
                tokens=part.lm.tokens[rows],
                log_p=log_p[rows],
                log_lm=part.lm.log_lm[rows],
                searched=searched[rows],
                matched=matched[rows],
                states=states[rows],
            )
    if isinstance(mixing, OnlineMixing):
        for document, parts in columns.items():
            whole = np.concatenate(parts)
            room[document].log_p[:] = mixing.log_mixed(whole, np.zeros(len(whole), np.int32))
    return room
