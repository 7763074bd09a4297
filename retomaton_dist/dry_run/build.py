"""What a whole build would take, stage by stage."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.dry_run.extraction import (
    BYTES_PER_TOKEN,
    Counted,
    ExtractEstimate,
    count,
    time_extraction,
)
from retomaton_dist.dry_run.free import free_disk, free_memory, warnings
from retomaton_dist.dry_run.later import StageEstimate, Work, choose_sizes, estimate_later
from retomaton_dist.dry_run.probes import Rates, measure, start_seconds
from retomaton_dist.errors import CorpusError
from retomaton_dist.runtime.progress import clock
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages.build import BuildInputs, check_fit, check_later, find_inputs
from storage.datastore import Shape

BYTES_PER_DOCUMENT = 64
HEAD = ("stage", "makes", "disk", "memory", "time", "time is")


@dataclass(frozen=True)
class BuildEstimate:
    """What every stage would leave and need, beside what is free."""

    store: Path
    extraction: ExtractEstimate
    rates: Rates
    stages: tuple[StageEstimate, ...]
    starting: float

    @property
    def disk(self) -> float:
        """Bytes of the finished store."""
        return sum(stage.disk for stage in self.stages)

    @property
    def memory(self) -> float:
        """Bytes of all workers in the stage that needs most."""
        return max(stage.memory for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Of all stages, one after the other, and of starting the workers."""
        return sum(stage.seconds for stage in self.stages) + self.starting

    def as_text(self) -> str:
        """A table for people."""
        counted, shape = self.extraction.counted, self.extraction.shape
        head = (
            f"{self.store} would hold {shape.entries:,} entries of {shape.dimension} numbers, from "
            f"{len(counted.lengths):,} documents ({counted.skipped:,} empty ones skipped)"
        )
        totals = ("", _size(self.disk), _size(self.memory), clock(self.seconds), "")
        free = ("", _size(free_disk(self.store)), _size(free_memory()), "", "")
        start = ("", "workers, started once", "", "", clock(self.starting), "measured")
        rows = [HEAD, *map(_cells, self.stages), start, ("in all", *totals), ("free", *free)]
        warned = warnings(self.disk, self.memory, self.store)
        return "\n".join([head, *_aligned(rows), *self._basis(), *warned])

    def _basis(self) -> list[str]:
        rates, extraction = self.rates, self.extraction
        return [
            "  measured: tokenizing all of the corpus, and the model on a few batches "
            f"({extraction.tokens_per_second:,.0f} tokens/s by each of {extraction.workers} "
            "workers)",
            "  derived: work to be done over rates of each worker, timed now on made-up keys: "
            f"{rates.products / 1e9:,.1f} G multiplications/s (states), "
            f"{rates.searched / 1e9:,.1f} G (index), {rates.encoded:,.0f} codes/s",
        ]


def estimate_build(store: str | Path, settings: BuildSettings) -> BuildEstimate:
    """Check, count, time and estimate all stages; the store is not touched."""
    with Session(settings.workers) as session:
        inputs = find_inputs(Path(store), settings, session)
        check_later(Path(store), settings, inputs.outlined.dimension)
        start = start_seconds(session)
        counted = count(inputs.corpus, session)
        shape = _shape(counted, settings, inputs)
        check_fit(settings, shape)
        extraction = time_extraction(store, settings, inputs, counted, session)
        rates = measure(choose_sizes(settings, shape), session)
        workers = session.crew(gpu=session.has_gpu()).workers
        work = Work(shape, workers, rates, inputs.corpus.tokenizer.vocabulary)
    stages = (*_first_stages(extraction), *estimate_later(settings, work))
    return BuildEstimate(Path(store), extraction, rates, stages, start)


def _shape(counted: Counted, settings: BuildSettings, inputs: BuildInputs) -> Shape:
    entries = int(counted.lengths.sum())
    if not entries:
        raise CorpusError(
            f"the corpus holds no token to make an entry of: {counted.skipped} empty documents"
        )
    return inputs.shape(entries, settings)


def _first_stages(extraction: ExtractEstimate) -> Iterable[StageEstimate]:
    counted, shape = extraction.counted, extraction.shape
    corpus = BYTES_PER_TOKEN * shape.entries + BYTES_PER_DOCUMENT * len(counted.lengths)
    padded = shape.chunks * shape.chunk_entries
    return (
        StageEstimate(
            "tokenize", "corpus", corpus, counted.memory_bytes, counted.seconds, "measured"
        ),
        StageEstimate(
            "extract",
            f"datastore.zarr: {shape.chunks:,} chunks",
            padded * (2 * shape.dimension + 4 + 8),
            extraction.memory_bytes,
            extraction.seconds,
            "measured",
        ),
    )


def _cells(stage: StageEstimate) -> tuple[str, ...]:
    sizes = (_size(stage.disk), _size(stage.memory), clock(stage.seconds))
    timing = stage.timing if math.isfinite(stage.seconds) else "unknown"
    return (stage.stage, stage.makes, *sizes, timing)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as they need to be: texts to the left, amounts to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    amounts = range(2, 5)
    return [
        "  " + "  ".join(
            cell.rjust(width) if number in amounts else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]  # fmt: skip


def _size(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e7 else f"{size / 1e6:,.2f} MB"
