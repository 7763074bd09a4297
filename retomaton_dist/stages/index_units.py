"""The units of the stage `index/NAME`, and what they leave for each other.

Units 0..S-1 are the shards and unit S is the training, whose files stay. Where an index can be
divided (`search/factory.py`) others come before them, whose files are scratch:

    residual parts   what some rows of the sample are beside their centroids, or their extremes
    book groups      some books of a product codec, trained on all residual parts
    unit S           the trained index, put together
    blocks           some chunks of one shard: lists of codes, and the probe's nearest among them
    units 0..S-1     shards, merged from their blocks
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from retomaton_dist.search.codebooks import books_of, codec_rows
from retomaton_dist.search.factory import Division
from retomaton_dist.search.layout import FOLDER, ShardSpan
from retomaton_dist.storage.datastore import Shape

RESIDUAL_ROWS = 1 << 14
BOOKS_AT_ONCE = 4
# How much faster merging is than filling: for progress alone.
MERGING = 1 / 16
TRAINING = None
"""The payload of the unit that trains, or puts together what was trained."""


@dataclass(frozen=True)
class ResidualPart:
    """Rows first..last-1 of the codec's sample."""

    first: int
    last: int


@dataclass(frozen=True)
class BookGroup:
    """Books first..last-1 of a product codec."""

    first: int
    last: int


@dataclass(frozen=True)
class Block:
    """Chunks first..last-1 of the datastore, which lie in one shard."""

    shard: int
    first: int
    last: int


IndexUnit = ShardSpan | ResidualPart | BookGroup | Block | None


@dataclass(frozen=True)
class IndexUnits:
    """All units of an index, in the order of their numbers."""

    spans: tuple[ShardSpan, ...]
    residuals: tuple[ResidualPart, ...]
    books: tuple[BookGroup, ...]
    blocks: tuple[Block, ...]

    @property
    def training(self) -> int:
        """The number of the unit that trains."""
        return len(self.spans)

    @cached_property
    def payloads(self) -> list[IndexUnit]:
        """What each unit has to do."""
        return [*self.spans, TRAINING, *self.residuals, *self.books, *self.blocks]

    @cached_property
    def rounds(self) -> list[range]:
        """Numbers of units that may be done together: parts, books, training, blocks, shards."""
        sizes = [len(self.spans), 1, len(self.residuals), len(self.books), len(self.blocks)]
        bounds = itertools.pairwise([0, *itertools.accumulate(sizes)])
        shards, training, residuals, books, blocks = itertools.starmap(range, bounds)
        return [residuals, books, training, blocks, shards]

    def block_numbers(self, shard: int) -> list[int]:
        """Numbers of a shard's blocks, in the order of their entries."""
        numbered = zip(self.rounds[3], self.blocks, strict=True)
        return [number for number, block in numbered if block.shard == shard]

    def needed_by(self, unit: int) -> Iterable[int]:
        """The units whose scratch a unit reads."""
        residuals, books, training, *_ = self.rounds
        if unit < self.training:
            return self.block_numbers(unit)
        if unit in training:
            return [*residuals, *books]
        return residuals if unit in books else ()

    def work(self, shape: Shape, sample: int) -> list[float]:
        """How much each unit has to do, in entries."""
        merging = MERGING if self.blocks else 1
        parts = [part.last - part.first for part in self.residuals]
        blocks = (shape.entry_range(range(block.first, block.last)) for block in self.blocks)
        return [
            *(merging * (span.last - span.first) for span in self.spans),
            float(sample),
            *map(float, parts),
            *[sum(parts) / max(1, len(self.books))] * len(self.books),
            *(float(last - first) for first, last in blocks),
        ]


def units_of(
    empty: Any,
    shape: Shape,
    spans: tuple[ShardSpan, ...],
    division: Division,
    sample: int,
    unit_entries: int,
) -> IndexUnits:
    """The units of an index that is divided like this."""
    rows = codec_rows(empty, sample) if division.training else 0
    books = books_of(empty) if division.training else 0
    per_block = max(1, unit_entries // shape.chunk_entries)
    return IndexUnits(
        spans,
        tuple(itertools.starmap(ResidualPart, _cut(0, rows, RESIDUAL_ROWS))),
        tuple(itertools.starmap(BookGroup, _cut(0, books, BOOKS_AT_ONCE))),
        tuple(
            Block(shard, *bounds)
            for shard, span in enumerate(spans if division.filling else ())
            for bounds in _cut(*span.chunks, per_block)
        ),
    )


def _cut(first: int, last: int, size: int) -> Sequence[tuple[int, int]]:
    return [(start, min(start + size, last)) for start in range(first, last, size)]


def scratch_folder(name: str) -> str:
    """Where units leave what others read, relative to the store."""
    return f"{FOLDER}/{name}/parts"


def part_path(name: str, unit: int) -> str:
    """What a residual part, a group of books or a block leaves, relative to the store."""
    return f"{scratch_folder(name)}/unit-{unit:05d}"


def nearest_path(name: str, unit: int) -> str:
    """The probe's exact neighbours among a block's entries, relative to the store."""
    return f"{scratch_folder(name)}/exact-{unit:05d}.arrow"


def part_paths(name: str, unit: int, payload: IndexUnit) -> list[str]:
    """All that a unit leaves for others."""
    nearest = [nearest_path(name, unit)] if isinstance(payload, Block) else []
    return [part_path(name, unit), *nearest]
