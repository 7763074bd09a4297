"""Reading a corpus with a model: which windows, in which batches, show given positions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.windows import Window, batches, document_windows
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.pickling import PicklesFieldsOnly


@dataclass(frozen=True)
class Span:
    """Positions first..last-1 of a document; their results begin at row `row`."""

    document: int
    first: int
    last: int
    row: int


@dataclass(frozen=True)
class WindowRows:
    """What a window of a batch yields: its positions from `start` on, for rows first..last-1."""

    window: Window
    start: int
    first: int
    last: int


@dataclass(frozen=True)
class WindowReader:
    """Cuts spans of a corpus into batches of windows."""

    corpus: Corpus
    context: int
    stride: int
    batch_tokens: int

    def spans(self, first: int, last: int) -> list[Span]:
        """The spans that entries first..last-1 lie in, a row per entry."""
        corpus = self.corpus
        documents = range(corpus.document_of(first), corpus.document_of(last - 1) + 1)
        begins = [int(corpus.first_entries[document]) for document in documents]
        return [
            Span(
                document,
                low := max(first - begin, 0),
                min(last - begin, int(corpus.lengths[document])),
                begin + low - first,
            )
            for document, begin in zip(documents, begins, strict=True)
        ]

    def batches(
        self, spans: Sequence[Span]
    ) -> Iterator[tuple[NDArray[np.int64], list[WindowRows]]]:
        """Yield inputs [rows, tokens], padded on the right, and what each row of them yields."""
        kept = [item for span in spans for item in self._kept(span)]
        for group in batches([item.window.length for item in kept], self.batch_tokens):
            chosen = [kept[index] for index in group]
            yield self._inputs([item.window for item in chosen]), chosen

    def _kept(self, span: Span) -> Iterator[WindowRows]:
        length = int(self.corpus.lengths[span.document])
        for window in document_windows(
            span.document, length, self.context, self.stride, span.first, span.last
        ):
            low, high = max(window.first, span.first), min(window.last, span.last)
            row = span.row + low - span.first
            yield WindowRows(window, low - window.start, row, row + high - low)

    def _inputs(self, windows: list[Window]) -> NDArray[np.int64]:
        inputs = np.zeros((len(windows), max(window.length for window in windows)), np.int64)
        for row, window in zip(inputs, windows, strict=True):
            stop = window.start + window.length
            row[: window.length] = self.corpus.inputs(window.document, window.start, stop)
        return inputs


@dataclass(frozen=True, eq=False)
class WindowedModel:
    """A loaded model, and the windows in which it reads texts."""

    spec: ModelSpec
    lm: LanguageModel
    context: int
    stride: int


@dataclass(frozen=True)
class ModelReader(PicklesFieldsOnly):
    """The common part of what reads with a model; sent to a worker, it loads the model there.

    `loaded` is the model if it is there already.
    """

    windows: WindowReader
    model: ModelSpec
    device: str
    loaded: LanguageModel | None = None

    @cached_property
    def lm(self) -> LanguageModel:
        """The model on its device."""
        return self.loaded or LanguageModel.load(self.model, self.device)

    @property
    def corpus(self) -> Corpus:
        """What is read."""
        return self.windows.corpus
