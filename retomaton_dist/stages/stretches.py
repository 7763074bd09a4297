"""What stages have in common that read a corpus once, in stretches."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from retomaton_dist.stages.runner import Done, Plan
from retomaton_dist.storage.corpus import DOCUMENTS, TOKENS
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.store import Store

CHECK = range(0)
"""The payload of the unit that looks whether the corpus is sound."""


@dataclass(frozen=True)
class StretchPlan(Plan[range], PicklesFieldsOnly):
    """The store whose corpus is read: a look at its bytes first, then a unit for each stretch."""

    store: Store

    merges = True

    @property
    @abstractmethod
    def stretches(self) -> tuple[int, int]:
        """How much there is to read, in `work_name`, and how much of it at a time."""

    @property
    def reads(self) -> list[Path]:  # type: ignore[override]
        """The store with the corpus: what is found may be kept elsewhere."""
        return [self.store.path.resolve()]

    @cached_property
    def units(self) -> list[range]:
        """The check; then stretches first..last-1."""
        total, size = self.stretches
        return [CHECK, *(range(at, min(at + size, total)) for at in range(0, total, size))]

    @cached_property
    def work(self) -> list[float]:
        """The length of each stretch."""
        return [float(len(unit)) for unit in self.units]

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """The check comes first."""
        return [[0], range(1, len(self.units))]


class StretchWorker(ABC):
    """Reads stretches of a corpus."""

    def __init__(self, store: Store) -> None:
        self._store, self.corpus = store, store.corpus()

    def run(self, number: int, payload: range) -> Done:
        """Check the corpus, or read a stretch of it."""
        if payload == CHECK:
            GuardedReader(self._store).check_files("tokenize", (TOKENS, DOCUMENTS))
            return Done()
        return self.read(number, payload)

    @abstractmethod
    def read(self, number: int, stretch: range) -> Done:
        """Do a unit: write what was found in its stretch."""
