"""What `tokenize` and `extract` would take.

Tokens are counted, not guessed: the workers tokenise the corpus and keep only lengths. The model
is timed on two batches of the shape that extraction would use.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from retomaton_dist.building import BuildSettings, Prepared, choose_shape, prepare
from retomaton_dist.dry_run.free import free_disk, free_memory, warnings
from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.runtime.cluster import Crew, Session
from retomaton_dist.runtime.pool import run_units
from retomaton_dist.runtime.progress import clock, showing
from retomaton_dist.stages.extract import Windowing, choose_unit_chunks
from retomaton_dist.stages.tokenize import TokenizePlan
from retomaton_dist.stages.tokenize_worker import Pieces, Reader
from storage.datastore import Shape

TIMED_BATCHES = 2
BYTES_PER_TOKEN = 8  # token and offset in the corpus


@dataclass(frozen=True)
class Counted:
    """Entries of every document, and what it took the workers to count them."""

    lengths: NDArray[np.int64]
    skipped: int
    seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class ExtractEstimate:
    """What extraction would take, beside what is free."""

    store: Path
    counted: Counted
    shape: Shape
    computed_tokens: int
    workers: int
    tokens_per_second: float
    worker_bytes: int

    @property
    def disk_bytes(self) -> int:
        """Keys, values, pointers and the tokenised corpus."""
        return self.shape.entries * (2 * self.shape.dimension + 4 + 8 + BYTES_PER_TOKEN)

    @property
    def memory_bytes(self) -> int:
        """Of all workers together."""
        return self.worker_bytes * self.workers

    @property
    def seconds(self) -> float:
        """Of extraction, once the workers have started."""
        return self.computed_tokens / (self.tokens_per_second * self.workers)

    def as_text(self) -> str:
        """A table for people."""
        documents, skipped = len(self.counted.lengths), self.counted.skipped
        rows = [
            ("documents", f"{documents:,} ({skipped:,} empty ones skipped)"),
            ("entries", f"{self.shape.entries:,} of {self.shape.dimension} numbers"),
            ("disk", f"{_gigabytes(self.disk_bytes)}, free: {_gigabytes(free_disk(self.store))}"),
            ("memory", f"{_gigabytes(self.memory_bytes)} for {self.workers} workers, free here: "
                       f"{_gigabytes(free_memory())}"),
            ("time", f"about {clock(self.seconds)} with {self.workers} workers at "
                     f"{self.tokens_per_second:,.0f} tokens/s each, measured now"),
        ]  # fmt: skip
        warned = warnings(self.disk_bytes, self.memory_bytes, self.store)
        return "\n".join([f"{self.store} would hold", *map(_line, rows), *warned])


def estimate_extraction(store: str | Path, settings: BuildSettings) -> ExtractEstimate:
    """Count, time and estimate; the store is not touched."""
    with Session(settings.workers) as session:
        prepared = prepare(settings, session)
        counted = count(prepared.corpus, session)
        return time_extraction(store, settings, prepared, counted, session)


def time_extraction(
    store: str | Path,
    settings: BuildSettings,
    prepared: Prepared,
    counted: Counted,
    session: Session,
) -> ExtractEstimate:
    """Time the model as extraction would run it, and estimate from that."""
    windowing = prepared.windowing
    crew = session.crew(gpu=windowing.device == "cuda")
    rate, memory = _timed(prepared.model.spec, windowing, crew, session)
    entries = int(counted.lengths.sum())
    shape = choose_shape(max(entries, 1), settings, prepared)
    units = -(-shape.chunks // choose_unit_chunks(shape, windowing))
    return ExtractEstimate(
        store=Path(store),
        counted=counted,
        shape=Shape(entries, shape.dimension, shape.chunk_entries),
        computed_tokens=_computed(counted.lengths, windowing) + units * windowing.context // 2,
        workers=min(crew.workers, units),
        tokens_per_second=rate,
        worker_bytes=memory,
    )


class CountWorker:
    """Tokenises units and keeps only the lengths of their documents."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def run(self, pieces: Pieces) -> tuple[NDArray[np.int64], int, int]:
        """Entries of each document, how many documents have none, and bytes of memory in use."""
        documents, skipped = self._reader.read(pieces)
        lengths = np.array([document.length for document in documents], np.int64)
        return lengths, skipped, psutil.Process().memory_info().rss


class TimingWorker:
    """Runs the model on batches of full windows."""

    def __init__(self, model: ModelSpec, windowing: Windowing) -> None:
        self._windowing = windowing
        self._lm = LanguageModel.load(model, windowing.device)

    def run(self, _: int) -> tuple[float, int]:
        """Tokens per second, and bytes of memory in use after it."""
        rows = max(1, self._windowing.batch_tokens // self._windowing.context)
        shape = (rows, self._windowing.context)
        inputs = torch.zeros(shape, dtype=torch.long)
        self._lm.keys(inputs)
        start = time.monotonic()
        for _ in range(TIMED_BATCHES):
            self._lm.keys(inputs).cpu()
        seconds = time.monotonic() - start
        return TIMED_BATCHES * inputs.numel() / seconds, psutil.Process().memory_info().rss


def count(planned: TokenizePlan, session: Session) -> Counted:
    """Tokenise the corpus as the stage `tokenize` would, and keep only the documents' lengths."""
    crew, plan = session.crew(gpu=False), planned.plan
    lengths, skipped, memory = [np.empty(0, np.int64)], 0, 0
    work = {id(unit): size for unit, size in zip(plan.units, plan.work, strict=True)}
    with showing(session.settings.progress, "count", sum(plan.work), "bytes") as progress:
        make, limit = partial(CountWorker, planned.reader), session.settings.unit_timeout
        for unit, found in run_units(crew, make, plan.units, limit, progress.begin):
            lengths.append(found[0])
            skipped += found[1]
            memory = max(memory, found[2])
            progress.advance(work[id(unit)])
        seconds = progress.seconds
    workers = min(crew.workers, len(plan.units))
    return Counted(np.concatenate(lengths), skipped, seconds, memory * workers)


def _timed(
    model: ModelSpec, windowing: Windowing, crew: Crew, session: Session
) -> tuple[float, int]:
    """Time all workers of the crew at once, as they will run, and take the mean."""
    make = partial(TimingWorker, model, windowing)
    limit = session.settings.unit_timeout
    results = [result for _, result in run_units(crew, make, range(crew.workers), limit)]
    rates, sizes = zip(*results, strict=True)
    return float(np.mean(rates)), max(sizes)


def _computed(lengths: NDArray[np.int64], windowing: Windowing) -> int:
    """Tokens that the windows of all documents hold together."""
    beyond = np.maximum(lengths - windowing.context, 0)
    windows = -(-beyond // windowing.stride)
    return int(lengths.sum() + (windows * (windowing.context - windowing.stride)).sum())


def _line(row: tuple[str, str]) -> str:
    return f"  {row[0]:<10} {row[1]}"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.2f} GB"
