"""What a build would take, found out before anything is written.

Tokens are counted, not guessed: the workers tokenise the corpus and keep only lengths. The model
is timed on two batches of the shape that extraction would use.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from retomaton_dist.building import BuildSettings
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.runtime.cluster import Crew, Session
from retomaton_dist.runtime.pool import run_units
from retomaton_dist.runtime.progress import clock, showing
from retomaton_dist.settings import ModelSettings
from retomaton_dist.stages.extract import (
    Windowing,
    check_model,
    choose_shape,
    choose_unit_chunks,
    resolve,
)
from retomaton_dist.stages.tokenize import TokenizePlan, plan_tokenize
from retomaton_dist.stages.tokenize_worker import Pieces, Reader
from storage.datastore import Shape

TIMED_BATCHES = 2
BYTES_PER_TOKEN = 8  # token and offset in the corpus


@dataclass(frozen=True)
class Estimate:
    """What the build would take, beside what is free."""

    store: Path
    documents: int
    skipped: int
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
    def seconds(self) -> float:
        """Of extraction, once the workers have started."""
        return self.computed_tokens / (self.tokens_per_second * self.workers)

    def as_text(self) -> str:
        """A table for people."""
        disk, memory = _free_disk(self.store), psutil.virtual_memory().available
        needed = self.worker_bytes * self.workers
        rows = [
            ("documents", f"{self.documents:,} ({self.skipped:,} empty ones skipped)"),
            ("entries", f"{self.shape.entries:,} of {self.shape.dimension} numbers"),
            ("disk", f"{_gigabytes(self.disk_bytes)}, free: {_gigabytes(disk)}"),
            ("memory", f"{_gigabytes(needed)} for {self.workers} workers, free here: "
                       f"{_gigabytes(memory)}"),
            ("time", f"about {clock(self.seconds)} with {self.workers} workers at "
                     f"{self.tokens_per_second:,.0f} tokens/s each, measured now"),
        ]  # fmt: skip
        warnings = [
            f"  NOT ENOUGH {what}" for what, need, free in
            (("DISK", self.disk_bytes, disk), ("MEMORY", needed, memory)) if need > free
        ]  # fmt: skip
        return "\n".join([f"{self.store} would hold", *map(_line, rows), *warnings])


def dry_run(store: str | Path, settings: BuildSettings) -> Estimate:
    """Count, time and estimate; the store is not touched."""
    with Session(settings.workers) as session:
        planned = plan_tokenize(settings.corpus, settings.model, settings.tokenize)
        outlined = check_model(settings.model, planned.tokenizer)
        windowing = resolve(settings.extract, settings.model, outlined, session)
        crew = session.crew(gpu=windowing.device == "cuda")
        lengths, skipped = _count(planned, session)
        rate, memory = _timed(settings.model, windowing, crew, session)
    entries = int(lengths.sum())
    shape = choose_shape(max(entries, 1), outlined.dimension, settings.extract.chunk_entries)
    units = -(-shape.chunks // choose_unit_chunks(shape, windowing))
    return Estimate(
        store=Path(store),
        documents=len(lengths),
        skipped=skipped,
        shape=Shape(entries, shape.dimension, shape.chunk_entries),
        computed_tokens=_computed(lengths, windowing) + units * windowing.context // 2,
        workers=min(crew.workers, units),
        tokens_per_second=rate,
        worker_bytes=memory,
    )


class CountWorker:
    """Tokenises units and keeps only the lengths of their documents."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def run(self, pieces: Pieces) -> tuple[NDArray[np.int64], int]:
        """Entries of each document, and how many documents have none."""
        documents, skipped = self._reader.read(pieces)
        return np.array([document.length for document in documents], np.int64), skipped


class TimingWorker:
    """Runs the model on batches of full windows."""

    def __init__(self, model: ModelSettings, windowing: Windowing) -> None:
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


def _count(planned: TokenizePlan, session: Session) -> tuple[NDArray[np.int64], int]:
    crew, plan = session.crew(gpu=False), planned.plan
    lengths, skipped = [np.empty(0, np.int64)], 0
    work = {id(unit): size for unit, size in zip(plan.units, plan.work, strict=True)}
    with showing(session.settings.progress, "count", sum(plan.work), "bytes") as progress:
        make = partial(CountWorker, planned.reader)
        for unit, (found, empty) in run_units(
            crew, make, plan.units, session.settings.unit_timeout
        ):
            lengths.append(found)
            skipped += empty
            progress.advance(work[id(unit)])
    return np.concatenate(lengths), skipped


def _timed(
    model: ModelSettings, windowing: Windowing, crew: Crew, session: Session
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


def _free_disk(store: Path) -> int:
    existing = next(folder for folder in _upwards(store.resolve()) if folder.exists())
    return shutil.disk_usage(existing).free


def _upwards(path: Path) -> Iterator[Path]:
    return iter((path, *path.parents))


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.2f} GB"
