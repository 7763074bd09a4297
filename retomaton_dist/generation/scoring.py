"""Scoring texts: read, walked and mixed in this process, just as an evaluation does."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.errors import BadInput
from retomaton_dist.evaluation.reading import DocumentBlock, TextReader, blocks
from retomaton_dist.evaluation.score_worker import Pass, ScoreJob, ScoreWorker, Stopwatch
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.reading import WindowReader
from retomaton_dist.methods.mixing import log_target, temperatures_for
from retomaton_dist.scores.reading import Reading
from retomaton_dist.scores.seen import SeenRows
from retomaton_dist.scores.walks import Walked
from retomaton_dist.storage.corpus_in_memory import CorpusInMemory

if TYPE_CHECKING:
    from retomaton_dist.generation.loaded import RetomatonLM

Columns = dict[str, NDArray[Any]]
Scorable = str | Sequence[int] | NDArray[np.int32]
"""A text, or its tokens."""
# Log-sums are taken for some temperature, also where nothing is mixed.
ANY = (1.0,)


@dataclass(frozen=True)
class Scored:
    """A text, token by token; logarithms are natural.

    `tokens` are those that have a position: the first one has none if the model reads nothing
    before it. `log_p` is of the mixture, `log_lm` of the LM alone. `states` is in how many states
    the walk was.
    """

    tokens: NDArray[np.int32]
    log_p: NDArray[np.float64]
    log_lm: NDArray[np.float32]
    searched: NDArray[np.bool_]
    states: NDArray[np.int32]

    @property
    def total(self) -> float:
        """Log-probability of the whole text."""
        return float(self.log_p.sum())

    @property
    def perplexity(self) -> float:
        """Per token."""
        return math.exp(-float(self.log_p.mean()))

    @property
    def perplexity_of_lm(self) -> float:
        """The same of the LM alone."""
        return math.exp(-float(self.log_lm.astype(np.float64).mean()))

    @property
    def foss(self) -> float:
        """Fraction of saved searches."""
        return 1 - float(self.searched.mean())


@dataclass(frozen=True)
class LoadedReader(TextReader):
    """Reads with a model that is loaded already."""

    loaded: LanguageModel

    @cached_property
    def lm(self) -> LanguageModel:
        """The model on its device."""
        return self.loaded


def score(lm: "RetomatonLM", texts: Sequence[Scorable]) -> list[Scored]:
    """Score texts, each as a document; text is tokenised as the corpus was, tokens stay."""
    corpus = tokenised(lm, texts)
    point = lm.point
    windows = WindowReader(corpus, lm.context, lm.stride, lm.batch_tokens)
    reader = LoadedReader(windows, lm.model, lm.lm.device, lm.lm)
    temperatures = temperatures_for(point.mixing) or ANY
    specs = () if point.spec is None else (point.spec,)
    chosen = Pass("score", specs, live=True, gate=point.gate)
    worker = ScoreWorker(ScoreJob(reader, lm.retrieval, (chosen,), temperatures, True))
    found: dict[int, Scored] = {}
    for block in blocks(range(len(texts)), corpus.lengths):
        found |= _scored(lm, worker, chosen, block, temperatures)
    return [found[number] for number in range(len(texts))]


def tokenised(lm: "RetomatonLM", texts: Sequence[Scorable]) -> CorpusInMemory:
    """Texts as documents of a corpus; one without anything to predict is refused."""
    corpus = lm.store.corpus()
    documents = [
        lm.encode(text) if isinstance(text, str) else np.asarray(text, np.int32) for text in texts
    ]
    for number, tokens in enumerate(documents):
        if len(tokens) <= corpus.lead:
            raise BadInput(f"text {number} has no token to score: give some text")
        if tokens.min() < 0 or tokens.max() >= corpus.vocabulary:
            raise BadInput(f"text {number} has a token outside 0..{corpus.vocabulary - 1}")
    return CorpusInMemory.of(documents, corpus.prefix, corpus.vocabulary)


def _scored(
    lm: "RetomatonLM",
    worker: ScoreWorker,
    chosen: Pass,
    block: DocumentBlock,
    temperatures: tuple[float, ...],
) -> Iterator[tuple[int, Scored]]:
    parts = list(worker.scored(chosen, block, Stopwatch(), Counter()))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["position"], columns["document"]))
    columns = {name: column[order] for name, column in columns.items()}
    reading, walked = _reading(columns), _walked(lm, columns, len(temperatures))
    documents = columns["document"]
    seen = SeenRows(temperatures, reading, documents, np.zeros(len(documents), np.int64))
    log_p = log_target(lm.point.mixing, seen, walked)
    for number in block.documents.tolist():
        rows = documents == number
        yield (
            number,
            Scored(
                reading.tokens[rows],
                log_p[rows],
                reading.log_lm[rows],
                walked.searched[rows],
                walked.states[rows],
            ),
        )


def _reading(columns: Columns) -> Reading:
    previous = np.where(columns["position"] > 0, np.roll(columns["token"], 1), np.int32(-1))
    return Reading(
        columns["query"],
        columns["token"],
        previous,
        columns["log_lm"],
        columns["entropy"],
        columns["confidence"],
        columns["favourite"],
    )


def _walked(lm: "RetomatonLM", columns: Columns, temperatures: int) -> Walked:
    spec = lm.point.spec
    if spec is None:
        return Walked.empty((len(columns["token"]),), temperatures)
    return Walked(**{item.name: columns[f"{spec.label}.{item.name}"] for item in fields(Walked)})
