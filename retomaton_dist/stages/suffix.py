"""The stage `suffix/NAME`: entries in the order of the tokens before them, ready to be mapped.

Three rounds of units, each over what the round before has finished:

    check    the corpus: are its bytes sound?
    before   entries first..last-1: the token before each                     -> before
    order    contexts whose latest token is first..last-1: gather and sort    -> order

A unit holds about `unit_entries` entries in memory, whatever N and its commonest token are;
besides, 8 bytes per token of the vocabulary. No key is read, and no model.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.contexts import first_tokens, ordered_pieces
from retomaton_dist.automaton.pieces import SCAN, ranges_within
from retomaton_dist.errors import DamagedStore
from retomaton_dist.settings import BuildSettings, SuffixSettings
from retomaton_dist.stages.columns import ColumnsPlan, ColumnsWorker, ColumnUnit, cut
from retomaton_dist.stages.cost import StageEstimate, Work, columns_bytes
from retomaton_dist.stages.runner import Done, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage import columns, preallocated
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import DOCUMENTS, TOKENS, Corpus
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.suffixes import SUFFIXES, SuffixShape

# Of an entry whose place among contexts is being found.
SORTING_BYTES = 80


class SuffixStage(BuildStage):
    """Entries by the tokens before them."""

    keys = False
    needs = "tokenize"

    def run(self, running: Running) -> None:
        """Order what is missing."""
        plan = SuffixPlan(running.store, running.settings.of(SuffixSettings))
        run_stage(running.writer, plan, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:
        """Every unit looks through the tokens before all entries for those that are its own."""
        chosen, entries, rates = settings.of(SuffixSettings), work.shape.entries, work.rates
        disk = columns_bytes(SuffixShape(entries, work.vocabulary, chosen.longest).columns())
        unit = min(chosen.unit_entries, entries)
        swept = -(-entries // chosen.unit_entries) * entries * 4.0
        return [
            StageEstimate(
                stage="suffix",
                makes=f"suffixes/{chosen.name}: {disk / entries:.0f} bytes per entry",
                disk=disk,
                memory=work.memory(float(SORTING_BYTES) * unit),
                workers=work.workers,
                core_seconds=entries / rates.ordered
                + swept / rates.swept
                + 2 * disk / rates.hashed,
                unit=unit / rates.ordered + entries * 4.0 / rates.swept,
                reads=swept + 8.0 * entries,
                again=entries * 4.0,
            )
        ]


@dataclass(frozen=True)
class SuffixPlan(ColumnsPlan):
    """A corpus, and the suffix index that it is to have."""

    settings: SuffixSettings

    kinds = ("check", "before", "order")

    @property
    def name(self) -> str:
        """After the index."""
        return f"suffix/{self.settings.name}"

    @cached_property
    def config(self) -> Json:
        """The corpus by its contents, and the settings."""
        return {
            "corpus": self.store.stage("tokenize").digest,
            "longest": self.settings.longest,
            "unit_entries": self.settings.unit_entries,
        }

    @cached_property
    def corpus(self) -> Corpus:
        """Whose tokens are looked up."""
        return self.store.corpus()

    @cached_property
    def shape(self) -> SuffixShape:
        """Sizes of the index."""
        return SuffixShape(self.corpus.entries, self.corpus.vocabulary, self.settings.longest)

    @property
    def folder(self) -> Path:
        """Where the index lies."""
        return SUFFIXES.path(self.store.path, self.settings.name)

    def filled(self) -> dict[str, tuple[Any, int]]:
        """The entries in order, and the token before each."""
        kinds = self.shape.columns()
        return {name: kinds[name] for name in ("order", "before")}

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First place of each latest token, counted from 1; then N. Place 0 is the first's."""
        counts = np.zeros(self.shape.vocabulary + 1, np.int64)
        for part in cut("before", self.shape.entries, SCAN):
            # What is out of range is damage, which the units will find.
            tokens = first_tokens(self.corpus.before(part.first, part.last))
            tokens = tokens.clip(0, len(counts) - 1)
            counts += np.bincount(tokens, minlength=len(counts))
        return np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def units(self) -> list[ColumnUnit]:
        """All units, round by round; latest tokens are counted from 1."""
        size, offsets = self.settings.unit_entries, self.offsets
        ordered = [
            ColumnUnit("order", low, high, int(offsets[high] - offsets[low]), int(offsets[low]))
            for low, high in ranges_within(offsets, size)
        ]
        check = ColumnUnit("check", 0, 0, self.shape.entries)
        return [check, *cut("before", self.shape.entries, size), *ordered]

    def worker(self) -> Callable[[], "SuffixWorker"]:
        """Fills ranges of the columns."""
        return partial(SuffixWorker, self)

    def finish(self, units: Sequence[Record]) -> Done:  # noqa: ARG002 - columns are filled
        """Write where tokens start, move the filled columns into place, and describe them."""
        starts = self.offsets[1:].astype(self.shape.columns()["starts"][0])
        path = self.folder / "starts.arrow"
        written = {"starts": columns.write_columns(path, {"starts": starts}), **self.in_place()}
        files = SUFFIXES.describe(self.folder, self.shape, written)
        total = sum(digest.bytes for digest in written.values())
        return Done(files, {**asdict(self.shape), "bytes_per_entry": total / self.shape.entries})


class SuffixWorker(ColumnsWorker):
    """Fills ranges of a suffix index's columns."""

    def __init__(self, plan: SuffixPlan) -> None:
        super().__init__(plan)
        self._plan = plan

    def check(self, unit: ColumnUnit) -> None:  # noqa: ARG002 - the whole corpus
        """Refuse a corpus whose bytes are not those that were written."""
        GuardedReader(self._plan.store).check_files("tokenize", (TOKENS, DOCUMENTS))

    def before(self, unit: ColumnUnit) -> None:
        """The token before each of some entries."""
        corpus, first = self._plan.corpus, unit.first
        parts = cut("before", unit.entries, SCAN)
        blocks = (corpus.before(first + part.first, first + part.last) for part in parts)
        self.fill("before", first, blocks)

    def order(self, unit: ColumnUnit) -> None:
        """The entries of some latest tokens, in the order of their contexts."""
        self.fill("order", unit.place, self._ordered(unit))

    @cached_property
    def _before(self) -> NDArray[np.int32]:
        """The token before each entry, once all of them are filled."""
        path = preallocated.part(self._plan.parts, "before").path
        return columns.map_columns(path, {"before": np.int32})["before"]

    def _ordered(self, unit: ColumnUnit) -> Iterator[Ids]:
        settings, left = self._plan.settings, unit.entries
        bounds = unit.first, unit.last, unit.entries, settings.unit_entries
        for entries in ordered_pieces(self._before, settings.longest, *bounds):
            left -= len(entries)
            # Checked before it is written: what lies behind belongs to other units.
            self._check_fits(left >= 0)
            yield entries
        self._check_fits(left == 0)

    def _check_fits(self, fits: bool) -> None:
        if not fits:
            raise DamagedStore(
                f"{self._plan.store.path / TOKENS} changed meanwhile; "
                f"make the suffix index anew under another --name"
            )
