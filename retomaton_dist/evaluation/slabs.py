"""How documents are walked: blocks of them in lock-step, slab after slab of positions.

Both bound what is in memory, however long the text or one of its documents is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.lm.reading import Span

BLOCK_DOCUMENTS = 32
SLAB_POSITIONS = 4096

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
