"""The stage `statistics`: how often each token of a corpus is followed, and by how many others.

Methods that learn when to search look it up. Units count stretches of the corpus; the pairs of
neighbours that they met are joined without being loaded whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.methods.token_statistics import TokenStatistics, count_pairs, count_ways
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.runner import Done, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.stages.stretches import StretchPlan, StretchWorker
from retomaton_dist.storage import columns
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store

STAGE = "statistics"
COLUMNS = {"followed": np.int64, "ways": np.int64}
UNIT_ENTRIES = 1 << 22
# Of two tokens that follow each other: at worst every entry is the only one of its pair.
PAIR_BYTES = 8


@dataclass(frozen=True)
class StatisticsPlan(StretchPlan):
    """A store with a corpus, and the store that is to hold what is counted: itself, or another."""

    holder: Path

    @property
    def name(self) -> str:
        """There is one per corpus."""
        return STAGE

    @cached_property
    def config(self) -> Json:
        """The corpus by its contents."""
        return {"corpus": self.store.stage("tokenize").digest}

    @property
    def stretches(self) -> tuple[int, int]:
        """All entries."""
        return self.store.corpus().entries, UNIT_ENTRIES

    def worker(self) -> Callable[[], "StatisticsWorker"]:
        """Counts entries."""
        return partial(StatisticsWorker, self)

    def finish(self, units: Sequence[Record]) -> Done:
        """Add up what units have counted, and join their pairs."""
        corpus = self.store.corpus()
        followed, pairs = np.zeros(corpus.vocabulary + 1, np.int64), []
        for unit in range(1, len(units)):
            followed += self.part(unit, "counts")
            pairs.append(self.part(unit, "pairs"))
        ways, path = count_ways(pairs, corpus.vocabulary), f"{STAGE}/tokens.arrow"
        named = {"followed": followed, "ways": ways}
        digest = columns.write_columns(self.holder / path, named)
        facts = {"tokens": int((followed[:-1] > 0).sum()), "pairs": int(ways.sum())}
        return Done({path: digest}, facts)

    def part_path(self, unit: int, kind: str) -> Path:
        """Where a unit leaves its counts or pairs."""
        return self.holder / STAGE / "parts" / f"unit-{unit:05d}.{kind}.arrow"

    def part(self, unit: int, kind: str) -> NDArray[np.int64]:
        """What a unit has left, mapped."""
        found = columns.map_columns(self.part_path(unit, kind), {kind: np.int64})
        return found[kind]

    def scratch(self) -> Sequence[Path]:
        """What units have counted."""
        return (self.holder / STAGE / "parts",)


class StatisticsStage(BuildStage):
    """How the corpus's tokens go on."""

    keys = False
    needs = "tokenize"

    def run(self, running: Running) -> None:
        """Count what is missing."""
        store = running.store
        run_stage(running.writer, StatisticsPlan(store, store.path), running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:  # noqa: ARG002
        """Units sort their pairs of neighbours; what they leave is joined in the end."""
        entries, rates, unit = work.shape.entries, work.rates, min(UNIT_ENTRIES, work.shape.entries)
        pairs = float(PAIR_BYTES) * entries
        return [
            StageEstimate(
                stage=STAGE,
                makes="statistics: how tokens go on",
                disk=2.0 * PAIR_BYTES * (work.vocabulary + 1),
                memory=work.memory(4.0 * PAIR_BYTES * unit),
                workers=work.workers,
                core_seconds=entries / rates.placed,
                unit=unit / rates.placed,
                reads=4.0 * entries + pairs,
                scratch=pairs,
            )
        ]


class StatisticsWorker(StretchWorker):
    """Counts stretches of the corpus."""

    def __init__(self, plan: StatisticsPlan) -> None:
        super().__init__(plan.store)
        self._plan = plan

    def read(self, number: int, stretch: range) -> Done:
        """Write the counts and the pairs of the unit's entries."""
        counts, pairs = count_pairs(self.corpus, stretch.start, stretch.stop)
        written = {}
        for kind, found in (("counts", counts), ("pairs", pairs)):
            path = self._plan.part_path(number, kind)
            digest = columns.write_columns(path, {kind: found})
            written[path.relative_to(self._plan.holder).as_posix()] = digest
        return Done(written)


def is_counted(store: Store) -> bool:
    """Whether a store says how its corpus's tokens go on."""
    stage = store.manifest.stages.get(STAGE)
    return stage is not None and stage.done


def read_statistics(holder: Store, vocabulary: int) -> TokenStatistics:
    """What the stage has counted, compared with its digests first."""
    check_stage(holder, STAGE)
    found = columns.map_columns(holder.path / STAGE / "tokens.arrow", COLUMNS)
    return TokenStatistics.of_counts(found["followed"], found["ways"], vocabulary)
