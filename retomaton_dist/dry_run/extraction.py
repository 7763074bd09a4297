"""What `tokenize` and `extract` would take.

Tokens are counted, not guessed: the workers tokenise the corpus and keep only lengths. Where that
takes longer than there is time for, what they have seen by then, from all over the corpus, stands
for the rest. The model is timed on more and more tokens, up to a batch of the shape that extraction
would use, as far as time allows.
"""

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.runtime.progress import showing
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages.build import BuildInputs
from retomaton_dist.stages.cost import ReadingCost
from retomaton_dist.stages.extract import Windowing, choose_unit_chunks
from retomaton_dist.stages.tokenize import Pieces, TextTokenizer, TokenizePlan
from retomaton_dist.storage.datastore import Shape

# Of source in a unit of counting, so that there is a moment to stop at.
COUNTED_BYTES = 1 << 20
LEAST_TOKENS, FACTOR = 64, 4


@dataclass(frozen=True)
class Counted:
    """Entries of the documents that were seen, and what it took the workers to count them.

    `share` is how much of the corpus that is, by bytes of source.
    """

    lengths: NDArray[np.int64]
    skipped: int
    seconds: float
    worker_bytes: int
    share: float = 1.0
    unit_seconds: float = 0.0

    @property
    def entries(self) -> int:
        """Of the whole corpus."""
        return self.whole(int(self.lengths.sum()))

    def whole(self, seen: int) -> int:
        """What was seen so often, in the whole corpus."""
        return seen if self.share == 1 else round(seen / self.share)

    def described(self) -> str:
        """How many documents, and how that is known."""
        about = "" if self.share == 1 else "about "
        documents, skipped = self.whole(len(self.lengths)), self.whole(self.skipped)
        return f"{about}{documents:,} documents ({skipped:,} empty ones skipped)"


@dataclass(frozen=True)
class Extraction:
    """What reading the corpus with the model would take."""

    shape: Shape
    timed: "Timed"
    computed_tokens: int
    unit_tokens: int
    workers: int

    @property
    def cost(self) -> ReadingCost:
        """At the rate that was timed, once the workers have started."""
        spent = self.computed_tokens / self.timed.tokens_per_second
        unit = self.unit_tokens / self.timed.tokens_per_second
        return ReadingCost(spent, unit, self.timed.memory, self.workers, "measured")


def time_extraction(
    settings: BuildSettings, inputs: BuildInputs, counted: Counted, session: Session, seconds: float
) -> Extraction:
    """Time the model as extraction would run it, and estimate from that."""
    windowing, entries = inputs.windowing, counted.entries
    workers = session.crew(gpu=windowing.device == "cuda").workers
    timed = _timed(inputs.outlined.spec, windowing, workers, session, seconds)
    shape = inputs.shape(max(entries, 1), settings)
    units = -(-shape.chunks // choose_unit_chunks(shape, windowing))
    seams = units * windowing.context // 2
    computed = counted.whole(_computed(counted.lengths, windowing)) + seams
    return Extraction(
        shape=Shape(entries, shape.dimension, shape.chunk_entries),
        timed=timed,
        computed_tokens=computed,
        unit_tokens=-(-computed // max(units, 1)),
        workers=min(workers, units),
    )


class CountWorker:
    """Tokenises units and keeps only the lengths of their documents."""

    def __init__(self, reader: TextTokenizer) -> None:
        self._reader = reader

    def run(self, unit: tuple[int, Pieces]) -> tuple[NDArray[np.int64], int, int]:
        """Entries of each document, how many documents have none, and bytes of memory in use."""
        documents, skipped = self._reader.read(unit[1])
        lengths = np.array([document.length for document in documents], np.int64)
        return lengths, skipped, psutil.Process().memory_info().rss


@dataclass(frozen=True)
class Timed:
    """What one worker's model does: tokens per second, on how many, and bytes of memory then."""

    tokens_per_second: float
    tokens: int
    memory: int


class TimingWorker:
    """Runs the model on more and more tokens at once."""

    def __init__(self, model: ModelSpec, windowing: Windowing, seconds: float) -> None:
        self._windowing, self._seconds = windowing, seconds
        self._lm = LanguageModel.load(model, windowing.device)

    def run(self, _: int) -> Timed:
        """Go on as long as the next, larger run would still end in time; the last one counts."""
        end = time.monotonic() + self._seconds
        shapes = timed_shapes(self._windowing)
        self._once(shapes[0])
        for shape in shapes:
            spent = self._once(shape)
            tokens = shape[0] * shape[1]
            if time.monotonic() + FACTOR * spent > end:
                break
        else:
            # There is time to run the full batch once more: the first one makes room for it.
            spent = self._once(shape)
        return Timed(tokens / spent, tokens, psutil.Process().memory_info().rss)

    def _once(self, shape: tuple[int, int]) -> float:
        start = time.monotonic()
        self._lm.keys(torch.zeros(shape, dtype=torch.long)).cpu()
        return time.monotonic() - start


def timed_shapes(windowing: Windowing) -> list[tuple[int, int]]:
    """Rows and columns of what the model is timed on: the last is what extraction gives it."""
    full = max(1, windowing.batch_tokens // windowing.context), windowing.context
    tokens, shapes = LEAST_TOKENS, list[tuple[int, int]]()
    while tokens < full[0] * full[1]:
        columns = min(tokens, windowing.context)
        shapes.append((max(1, tokens // columns), columns))
        tokens *= FACTOR
    return [*shapes, full]


def count(planned: TokenizePlan, session: Session, seconds: float) -> Counted:
    """Tokenise the corpus, or what there is time for, and keep only the documents' lengths."""
    planned = replace(planned, unit_bytes=min(planned.unit_bytes, COUNTED_BYTES))
    lengths, skipped, memory, seen, slowest = [np.empty(0, np.int64)], 0, 0, 0.0, 0.0
    make, total = partial(CountWorker, planned.reader), sum(planned.work)
    workers = session.crew(gpu=False).workers
    with (
        showing(session.settings.progress, "count", total, planned.work_name) as progress,
        session.pool(make, gpu=False, on_ready=progress.begin) as pool,
    ):
        for numbers in _slices(len(planned.units), workers):
            before = progress.seconds
            for (number, _), found in pool.run([(n, planned.units[n]) for n in numbers]):
                lengths.append(found[0])
                skipped += found[1]
                memory = max(memory, found[2])
                seen += planned.work[number]
                progress.advance(planned.work[number])
            slowest = max(slowest, progress.seconds - before)
            if progress.seconds > seconds:
                break
        spent = progress.seconds
    share = 1.0 if seen == total else seen / total
    return Counted(np.concatenate(lengths), skipped, spent / share, memory, share, slowest)


def _slices(units: int, workers: int) -> list[list[int]]:
    """Units in slices of one for each worker, from all over the corpus, always the same."""
    order = np.random.default_rng(0).permutation(units).tolist()
    return [order[start : start + workers] for start in range(0, units, workers)]


def _timed(
    model: ModelSpec, windowing: Windowing, workers: int, session: Session, seconds: float
) -> Timed:
    """Time all workers at once, as they will run, and take the mean."""
    make = partial(TimingWorker, model, windowing, seconds)
    with session.pool(make, gpu=windowing.device == "cuda") as pool:
        found = [result for _, result in pool.run(range(workers))]
    rate = float(np.mean([timed.tokens_per_second for timed in found]))
    least = min(timed.tokens for timed in found)
    return Timed(rate, least, max(timed.memory for timed in found))


def _computed(lengths: NDArray[np.int64], windowing: Windowing) -> int:
    """Tokens that the windows of all documents hold together."""
    beyond = np.maximum(lengths - windowing.context, 0)
    windows = -(-beyond // windowing.stride)
    return int(lengths.sum() + (windows * (windowing.context - windowing.stride)).sum())
