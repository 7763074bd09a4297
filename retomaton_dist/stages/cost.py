"""What a stage costs: the record that every stage's `estimate` returns, and what it works out from.

Work over rates of one worker is `core_seconds`, which workers share; `alone` is what one of them
does while the others wait. Disk is what a stage leaves, `scratch` what it needs besides while it
runs. Memory is that of one worker, of no file: pages of mapped files are the page cache's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retomaton_dist.storage.datastore import Shape


@dataclass(frozen=True)
class StageEstimate:
    """What one stage would leave and need; seconds are infinite where nobody knows.

    `reads` are bytes read from the store, `passes` how often all keys are read; `again` is the size
    of columns that every unit reads: where memory holds them, a node reads them once. `exchanged`
    are the bytes that workers send each other, `unit` the seconds of the longest unit.
    """

    stage: str
    makes: str
    disk: float
    memory: float
    workers: int
    core_seconds: float
    alone: float = 0.0
    unit: float = 0.0
    reads: float = 0.0
    passes: float = 0.0
    again: float = 0.0
    scratch: float = 0.0
    exchanged: float = 0.0
    timing: str = "derived"

    @property
    def seconds(self) -> float:
        """From its first unit to its end, the starting of workers left out."""
        return self.alone + self.core_seconds / self.workers


@dataclass(frozen=True)
class Rates:
    """What one worker gets done in a second while the others work too.

    `products` and `searched` are multiplications of numbers, by our own k-means and by FAISS;
    `encoded` are keys, `placed` entries brought into slot order, `ordered` into context order,
    `hashed` bytes checked, and `swept` bytes of a mapped column that a unit looks through for what
    is its own. `worker_bytes` is the memory of a worker that has nothing to do yet.
    """

    products: float
    searched: float
    encoded: float
    placed: float
    ordered: float
    hashed: float
    worker_bytes: float
    swept: float = 2e9


@dataclass(frozen=True)
class ReadingCost:
    """What a stage that reads text or runs the model takes, measured or derived elsewhere."""

    core_seconds: float = 0.0
    unit: float = 0.0
    memory: float = 0.0
    workers: int = 1
    timing: str = "derived"

    def estimate(
        self, stage: str, makes: str, disk: float, reads: float, scratch: float = 0.0
    ) -> StageEstimate:
        """The estimate of a stage that takes this, and leaves and reads so many bytes."""
        spent = self.memory, self.workers, self.core_seconds
        return StageEstimate(
            stage, makes, disk, *spent,
            unit=self.unit, reads=reads, scratch=scratch, timing=self.timing,
        )  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What there is to do: entries in chunks, of so many tokens, by workers of these rates.

    `text_bytes` are read by `tokenize`, which finds so many `documents`; `tokenizing` and `model`
    say what `tokenize` and `extract` take.
    """

    shape: Shape
    workers: int
    rates: Rates
    vocabulary: int
    documents: int = 0
    text_bytes: float = 0.0
    tokenizing: ReadingCost = ReadingCost()
    model: ReadingCost = ReadingCost()

    @property
    def key_bytes(self) -> float:
        """Size of all keys."""
        return 2.0 * self.shape.entries * self.shape.dimension

    def memory(self, own: float) -> float:
        """Bytes of a worker that holds so much, beside what any worker holds."""
        return self.rates.worker_bytes + own


def columns_bytes(columns: Mapping[str, tuple[Any, int]]) -> float:
    """Size of columns, given by type and length."""
    return float(sum(kind.itemsize * length for kind, length in columns.values()))
