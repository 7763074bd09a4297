"""Reading a text: documents side by side, slab after slab, and what the LM says at each position.

Blocks and slabs bound what is in memory, however long the text or one of its documents is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.engine.lm_output import LMOutput, normalise
from retomaton_dist.errors import ModelError
from retomaton_dist.lm.model_reader import ModelReader, Span

BLOCK_DOCUMENTS = 32
SLAB_POSITIONS = 4096
# Rows of logits that are normalised at once: bounds what a large vocabulary costs.
ROWS_AT_ONCE = 512

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class DocumentBlock:
    """Documents that advance together, longest first."""

    documents: Rows
    lengths: Rows


@dataclass(frozen=True)
class Slab:
    """Positions `steps` of the documents of a block that have any: a span for each."""

    steps: range
    spans: list[Span]

    @property
    def starts(self) -> Rows:
        """The first row of each document."""
        return np.array([span.row for span in self.spans])

    def positions(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Document and position of every row."""
        sizes = [span.last - span.first for span in self.spans]
        documents = np.repeat([span.document for span in self.spans], sizes)
        places = np.concatenate([np.arange(span.first, span.last) for span in self.spans])
        return documents.astype(np.int32), places.astype(np.int32)


def blocks(
    documents: Sequence[int], lengths: Rows, size: int = BLOCK_DOCUMENTS
) -> Iterator[DocumentBlock]:
    """Cut documents into blocks of like length; `lengths` is by document."""
    numbers = np.asarray(documents, np.int64)
    order = numbers[np.lexsort((numbers, -lengths[numbers]))]
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        yield DocumentBlock(chosen, lengths[chosen])


def slabs(block: DocumentBlock, positions: int = SLAB_POSITIONS) -> Iterator[Slab]:
    """Cut a block into slabs of about so many positions, at least one of each document."""
    first, longest = 0, int(block.lengths[0])
    while first < longest:
        active = int(np.count_nonzero(block.lengths > first))
        last = min(first + max(1, positions // active), longest)
        yield _slab(block, active, range(first, last))
        first = last


def _slab(block: DocumentBlock, active: int, steps: range) -> Slab:
    ends = np.minimum(block.lengths[:active], steps.stop)
    rows = np.concatenate([[0], np.cumsum(ends - steps.start)])
    spans = [
        Span(int(document), steps.start, int(end), int(row))
        for document, end, row in zip(block.documents[:active], ends, rows, strict=False)
    ]
    return Slab(steps, spans)


class QueryReader(ModelReader):
    """Runs a model over spans of a text for its queries alone."""

    def read(self, spans: Sequence[Span]) -> NDArray[np.float16]:
        """The queries at the positions of the spans, which follow each other by rows."""
        rows = sum(span.last - span.first for span in spans)
        queries = np.empty((rows, self.lm.dimension), np.float16)
        for inputs, kept in self.windows.batches(spans):
            keys = self.lm.keys(torch.from_numpy(inputs)).to(torch.float16).cpu().numpy()
            for row, item in enumerate(kept):
                place = slice(item.start, item.start + item.last - item.first)
                queries[item.first : item.last] = keys[row, place]
        return queries


@dataclass(frozen=True)
class TextReader(ModelReader):
    """Runs the LM over spans of a text, and `key_reader` if queries come from another model.

    Queries are rounded to float16 as keys are, so that a context the corpus has finds itself at
    distance 0.
    """

    key_reader: QueryReader | None = None

    def read(self, spans: Sequence[Span]) -> LMOutput:
        """Read the positions of the spans, which follow each other by rows."""
        rows = sum(span.last - span.first for span in spans)
        tokens, previous = self._tokens(spans, rows)
        log_lm, entropy, confidence = (np.empty(rows, np.float32) for _ in range(3))
        own = self.key_reader is None
        queries = np.empty((rows, self.lm.dimension if own else 0), np.float16)
        favourites = np.empty(rows, np.int32)
        made = LMOutput(queries, tokens, previous, log_lm, entropy, confidence, favourites)
        for inputs, kept in self.windows.batches(spans):
            keys, logits = self.lm.keys_and_logits(torch.from_numpy(inputs))
            for row, item in enumerate(kept):
                place = slice(item.start, item.start + item.last - item.first)
                if own:
                    queries[item.first : item.last] = (
                        keys[row, place].to(torch.float16).cpu().numpy()
                    )
                self._keep(made, slice(item.first, item.last), logits[row, place])
        if self.key_reader is not None:
            made = replace(made, queries=self.key_reader.read(spans))
        if not np.isfinite(made.queries).all():
            raise ModelError(
                "a query is NaN or beyond float16's range (65,504), though no key of the store is: "
                "make the store with another --key, or leave that text out"
            )
        return made

    def tokens_before(self, spans: Sequence[Span], read: LMOutput) -> NDArray[np.int32]:
        """The token before each row; -1 at the start of a document of which every token has one.

        Where the model reads no prefix, the first token of a document has no position of its own.
        """
        if not self.corpus.unpredicted:
            return read.previous
        before = read.previous.copy()
        for span in spans:
            if span.first == 0:
                before[span.row] = self.corpus.tokens[self.corpus.first_token(span.document)]
        return before

    def _tokens(
        self, spans: Sequence[Span], rows: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The tokens of the spans, and those before them."""
        tokens, previous = np.empty(rows, np.int32), np.full(rows, -1, np.int32)
        corpus = self.corpus
        for span in spans:
            begin = int(corpus.first_entries[span.document])
            head = 1 if span.first else 0
            values = corpus.values(begin + span.first - head, begin + span.last)
            stop = span.row + span.last - span.first
            tokens[span.row : stop] = values[head:]
            previous[span.row + 1 - head : stop] = values[:-1]
        return tokens, previous

    def _keep(self, made: LMOutput, rows: slice, logits: Tensor) -> None:
        wanted = torch.from_numpy(made.tokens[rows].astype(np.int64)).to(logits.device)
        for first in range(0, len(wanted), ROWS_AT_ONCE):
            part = logits[first : first + ROWS_AT_ONCE]
            tokens = wanted[first : first + ROWS_AT_ONCE]
            found = normalise(part)
            log_lm = part.gather(1, tokens[:, None])[:, 0].double() - found.normals
            begin = rows.start + first
            place = slice(begin, begin + len(tokens))
            made.log_lm[place] = log_lm.float().cpu().numpy()
            made.entropy[place] = found.entropy.cpu().numpy()
            made.confidence[place] = found.confidence.cpu().numpy()
            made.favourites[place] = found.favourites.cpu().numpy()
