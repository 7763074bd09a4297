"""What a whole build would take, stage by stage."""

import math
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.dry_run.disk import free_disk, free_memory, warnings
from retomaton_dist.dry_run.extraction import (
    COUNTED_BYTES,
    Counted,
    Extraction,
    count,
    time_extraction,
)
from retomaton_dist.dry_run.probes import choose_sizes, measure, start_seconds
from retomaton_dist.dry_run.tables import aligned, amount, size
from retomaton_dist.errors import BadInput, CorpusError
from retomaton_dist.runtime.progress import clock
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import BuildSettings, TokenizeSettings
from retomaton_dist.stages.build import check_fit, check_later, estimate_stages, find_inputs
from retomaton_dist.stages.cost import Rates, ReadingCost, StageEstimate, Work

# That a dry run measures for, and the shares of it for counting tokens and for the model.
SECONDS, COUNTING, READING = 60.0, 0.4, 0.3
HEAD = ("stage", "makes", "disk", "reads", "passes", "memory", "unit", "time", "time is")


@dataclass(frozen=True)
class BuildEstimate:
    """What every stage would leave and need, beside what is free."""

    store: Path
    counted: Counted
    extraction: Extraction
    rates: Rates
    stages: tuple[StageEstimate, ...]
    starting: float
    unit_timeout: float

    @property
    def disk(self) -> float:
        """Bytes of the finished store."""
        return sum(stage.disk for stage in self.stages)

    @property
    def memory(self) -> float:
        """Bytes of all workers in the stage that needs most."""
        return max(stage.memory * stage.workers for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Of all stages, one after the other, and of starting the workers."""
        return sum(stage.seconds for stage in self.stages) + self.starting

    def as_text(self) -> str:
        """A table for people."""
        counted, shape = self.counted, self.extraction.shape
        about = "" if counted.share == 1 else "about "
        head = (
            f"{self.store} would hold {about}{shape.entries:,} entries of {shape.dimension} "
            f"numbers, from {counted.described()}"
        )
        reads = size(sum(stage.reads for stage in self.stages))
        unit = clock(max(stage.unit for stage in self.stages))
        most = size(max(stage.memory for stage in self.stages))
        totals = ("", size(self.disk), reads, "", most, unit, clock(self.seconds), "")
        free = ("", size(free_disk(self.store)), "", "", size(free_memory()), "", "", "")
        started = "workers, started once"
        start = ("", started, "", "", "", "", "", clock(self.starting), "measured")
        rows = [HEAD, *map(_cells, self.stages), start, ("in all", *totals), ("free", *free)]
        return "\n".join([head, *aligned(rows, (0, 1, 8)), *self._basis(), *self.warnings()])

    def warnings(self) -> list[str]:
        """A line for whatever is not enough, or would take too long."""
        stuck = [
            f"  WARNING: the longest unit of {stage.stage} takes about {clock(stage.unit)}, and "
            f"--unit-timeout is {self.unit_timeout:g} s: raise it"
            for stage in self.stages
            if stage.unit > self.unit_timeout
        ]
        scratch = max(self.stages, key=lambda stage: stage.scratch)
        needed = self.disk + scratch.scratch
        close = self.disk <= free_disk(self.store) < needed
        tight = [
            f"  WARNING: while {scratch.stage} runs, {size(scratch.scratch)} more than the store's "
            f"may be needed: {size(needed)} in all"
        ]
        return [*warnings(self.disk, self.memory, self.store), *(tight if close else []), *stuck]

    def _basis(self) -> list[str]:
        rates, extraction, share = self.rates, self.extraction, self.counted.share
        part = "all" if share == 1 else f"{share:.1%}"
        return [
            "  memory and unit (the longest) are of one worker; passes are over all keys",
            f"  measured: tokenizing {part} of the corpus, and the model on "
            f"{extraction.timed.tokens:,} tokens at once "
            f"({extraction.timed.tokens_per_second:,.0f} tokens/s by each of {extraction.workers} "
            "workers)",
            "  derived: work to be done over rates of each worker, timed now on made-up keys: "
            f"{rates.products / 1e9:,.1f} G multiplications/s (states), "
            f"{rates.searched / 1e9:,.1f} G (index), {rates.encoded:,.0f} codes/s",
        ]


def estimate_build(
    store: str | Path, settings: BuildSettings, seconds: float = SECONDS
) -> BuildEstimate:
    """Check, count, time and estimate all stages; the store is not touched.

    Measuring takes about so many seconds at most, besides starting workers and loading the model.
    """
    if not settings.with_keys:
        raise BadInput("--no-keys: a dry run times the model, which would not be run; leave one")
    with Session(settings.workers) as session:
        inputs = find_inputs(Path(store), settings, session)
        check_later(Path(store), settings, inputs.outlined.dimension)
        start = start_seconds(session)
        counted = count(inputs.corpus, session, COUNTING * seconds)
        if not counted.entries:
            raise CorpusError(
                f"the corpus holds no token to make an entry of: {counted.skipped} empty documents"
            )
        shape = inputs.shape(counted.entries, settings)
        check_fit(settings, shape)
        extraction = time_extraction(settings, inputs, counted, session, READING * seconds)
        left = (1 - COUNTING - READING) * seconds
        rates = measure(choose_sizes(settings, shape), session, left)
        workers = session.crew(gpu=session.has_gpu()).workers
        vocabulary = inputs.corpus.tokenizer.vocabulary
    documents = counted.whole(len(counted.lengths))
    costs = _tokenizing(counted, extraction.workers, settings), extraction.cost
    work = Work(shape, workers, rates, vocabulary, documents, 0.0, *costs)
    stages, timeout = tuple(estimate_stages(settings, work)), settings.workers.unit_timeout
    return BuildEstimate(Path(store), counted, extraction, rates, stages, start, timeout)


def _tokenizing(counted: Counted, workers: int, settings: BuildSettings) -> ReadingCost:
    """What counting the tokens took, for the whole corpus and its units."""
    whole = settings.of(TokenizeSettings).unit_bytes
    unit = min(counted.unit_seconds * whole / min(whole, COUNTED_BYTES), counted.seconds)
    spent = counted.seconds * workers
    return ReadingCost(spent, unit, counted.worker_bytes, workers, "measured")


def _cells(stage: StageEstimate) -> tuple[str, ...]:
    known = math.isfinite(stage.seconds)
    timing = stage.timing if known else "unknown"
    sizes = size(stage.disk), size(stage.reads), amount(stage.passes), size(stage.memory)
    unit = clock(stage.unit) if known else "?"
    return (stage.stage, stage.makes, *sizes, unit, clock(stage.seconds), timing)
