"""The stage `ngram`: an n-gram model of the corpus, counted over the places of a suffix index.

Units of two kinds fill the columns that have a number per place (`storage/ngrams.py`) and leave
parts of the others; a kind waits for the one before:

    check    the corpus and the suffix index: are their bytes sound?
    count    contexts whose latest token is first..last-1    -> followers, shared, parts

A unit looks at a block of places at a time, however many its commonest token has; besides, it
holds 12 bytes per token of the vocabulary for each length of n-grams. No key is read, and no model.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.ngram_counts import BLOCK, SCANNED, NodeCounter
from retomaton_dist.automaton.ngrams import check_order, with_unigrams
from retomaton_dist.automaton.pieces import ranges_within
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import BuildSettings, NgramSettings, SuffixSettings
from retomaton_dist.stages.columns import ColumnsPlan, ColumnsWorker, ColumnUnit
from retomaton_dist.stages.cost import StageEstimate, Work, columns_bytes
from retomaton_dist.stages.runner import Done, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage import columns
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.corpus import DOCUMENTS, TOKENS
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.manifest import MANIFEST_NAME
from retomaton_dist.storage.ngrams import NGRAMS, NODE, NGramShape, place_columns
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.suffixes import SUFFIXES

# Where the settings leave it open, and the suffix index allows it.
ORDER = 5
# Of lists and nodes, per entry: what they took of law and WikiText-2.
LISTED_BYTES = 2.5
PAGE = 4096
# Of a token of the vocabulary, per length of n-grams, while it is counted.
COUNTING_BYTES = 12


class NgramStage(BuildStage):
    """What follows the contexts of a suffix index."""

    keys = False

    def check(self, settings: BuildSettings, dimension: int, store: Path | None) -> None:  # noqa: ARG002
        """Refuse an order that the suffix index does not allow, and an index that nobody makes."""
        chosen, made = settings.of(NgramSettings), settings.of(SuffixSettings)
        if chosen.suffixes == made.name:
            resolved(chosen, made.longest)
        elif store is not None and (store / MANIFEST_NAME).exists():
            self.check_store(Store.open(store), settings)
        elif store is not None:
            raise BadInput(
                f"--suffixes {chosen.suffixes}: the build makes the suffix index {made.name}; "
                f"leave `suffixes` out"
            )

    def check_store(self, store: Store, settings: BuildSettings) -> None:
        """Refuse a store without the suffix index, or whose contexts are too short."""
        chosen = settings.of(NgramSettings)
        resolved(chosen, store.stage(f"suffix/{chosen.suffixes}").config["longest"])

    def run(self, running: Running) -> None:
        """Count what is missing."""
        self.check_store(running.store, running.settings)
        plan = NgramPlan(running.store, running.settings.of(NgramSettings))
        run_stage(running.writer, plan, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:
        """Places are read one after the other; their values and contexts lie anywhere."""
        chosen, entries, rates = settings.of(NgramSettings), work.shape.entries, work.rates
        order, listed = chosen.order or ORDER, LISTED_BYTES * entries
        disk = columns_bytes(place_columns(entries)) + 8.0 * work.vocabulary + listed
        unit = min(chosen.unit_entries, entries)
        counting = COUNTING_BYTES * order * work.vocabulary
        block = 16.0 * order * (min(BLOCK, entries) + work.vocabulary)
        # What memory does not hold is read by pages: at worst two for each entry.
        scattered = min(8.0 * entries * -(-entries // chosen.unit_entries), 2.0 * PAGE * entries)
        return [
            StageEstimate(
                stage="ngram",
                makes=f"ngrams/{chosen.name}: about {disk / entries:.0f} bytes per entry",
                disk=disk,
                memory=work.memory(counting + block),
                workers=work.workers,
                core_seconds=entries / rates.ordered + 2 * disk / rates.hashed,
                unit=unit / rates.ordered,
                reads=8.0 * entries + scattered,
                again=8.0 * entries,
                scratch=listed,
            )
        ]


def resolved(settings: NgramSettings, longest: int) -> int:
    """The order that is asked for, or the usual one; refused if the suffix index is too short."""
    order = settings.order or min(ORDER, longest + 1)
    check_order(order, longest)
    return order


@dataclass(frozen=True)
class NgramPlan(ColumnsPlan):
    """A suffix index, and the n-gram model that it is to have."""

    settings: NgramSettings

    kinds = ("check", "count")

    @property
    def name(self) -> str:
        """After the model."""
        return f"ngram/{self.settings.name}"

    @property
    def suffix(self) -> str:
        """The stage that made the suffix index."""
        return f"suffix/{self.settings.suffixes}"

    @cached_property
    def config(self) -> Json:
        """The corpus and the suffix index by their contents, and the settings."""
        index = self.store.stage(self.suffix)
        return {
            "corpus": self.store.stage("tokenize").digest,
            "suffixes": self.settings.suffixes,
            "suffix_index": index.digest,
            "order": resolved(self.settings, index.config["longest"]),
            "scanned": SCANNED,
            "unit_entries": self.settings.unit_entries,
        }

    @cached_property
    def index(self) -> Suffixes:
        """Whose places are counted."""
        return Suffixes.open(SUFFIXES.path(self.store.path, self.settings.suffixes))

    @property
    def folder(self) -> Path:
        """Where the model lies."""
        return NGRAMS.path(self.store.path, self.settings.name)

    def filled(self) -> dict[str, tuple[Any, int]]:
        """What has a number per place."""
        return place_columns(self.index.entries)

    @property
    def parted(self) -> dict[str, tuple[Any, int]]:
        """The other columns, without lengths: units leave parts of them."""
        every = NGramShape(self.index.entries, 0, 0, 0, 0, []).columns()
        return {name: kind for name, kind in every.items() if name not in self.filled()}

    @cached_property
    def units(self) -> list[ColumnUnit]:
        """All units, round by round; latest tokens are counted from 1."""
        offsets = np.concatenate([[0], self.index.columns.starts]).astype(np.int64)
        counted = [
            ColumnUnit("count", low, high, int(offsets[high] - offsets[low]), int(offsets[low]))
            for low, high in ranges_within(offsets, self.settings.unit_entries)
        ]
        return [ColumnUnit("check", 0, 0, self.index.entries), *counted]

    def worker(self) -> Callable[[], "NgramWorker"]:
        """Counts ranges of places."""
        return partial(NgramWorker, self)

    def part_path(self, unit: ColumnUnit, name: str) -> Path:
        """Where a unit leaves its part of a column."""
        return self.parts / f"from-{unit.first:08d}.{name}.arrow"

    def part(self, unit: ColumnUnit, name: str) -> NDArray[Any]:
        """What a unit has left of a column, mapped."""
        found = columns.map_columns(self.part_path(unit, name), {name: self.parted[name][0]})
        return found[name]

    def finish(self, units: Sequence[Record]) -> Done:
        """Join the parts, move the filled columns into place, and describe them."""
        counting = [unit for unit in self.units if unit.kind == "count"]
        unigrams = np.sum([self.part(unit, "unigrams") for unit in counting], axis=0)
        joined = {
            "unigrams": iter([unigrams]),
            "nodes": self._nodes(counting),
            "lists": (self.part(unit, "lists") for unit in counting),
        }
        written = {
            name: columns.write_blocks(
                self.folder / f"{name}.arrow", name, self.parted[name][0], blocks
            )
            for name, blocks in joined.items()
        }
        written |= self.in_place()
        counted = np.sum([unit.facts["counted"] for unit in units[1:]], axis=0)
        lengths = {
            name: sum(len(self.part(unit, name)) for unit in counting)
            for name in ("nodes", "lists")
        }
        shape = NGramShape(
            entries=self.index.entries,
            vocabulary=self.index.vocabulary,
            scanned=SCANNED,
            nodes=lengths["nodes"] // NODE,
            listed=lengths["lists"] // 2,
            counted=with_unigrams(counted, unigrams).tolist(),
        )
        files = NGRAMS.describe(self.folder, shape, written)
        total = sum(digest.bytes for digest in written.values())
        facts = {"entries": shape.entries, "order": shape.order, "nodes": shape.nodes}
        return Done(files, {**facts, "bytes_per_entry": total / shape.entries})

    def _nodes(self, units: Sequence[ColumnUnit]) -> Iterator[NDArray[np.int64]]:
        """The nodes of all units; their lists begin where those of the units before end."""
        offset = 0
        for unit in units:
            nodes = self.part(unit, "nodes").reshape(-1, NODE).copy()
            nodes[:, 1] += offset
            yield nodes.ravel()
            offset += len(self.part(unit, "lists")) // 2


class NgramWorker(ColumnsWorker):
    """Counts ranges of a suffix index's places."""

    def __init__(self, plan: NgramPlan) -> None:
        super().__init__(plan)
        self._plan = plan

    def check(self, unit: ColumnUnit) -> None:  # noqa: ARG002 - all that is read
        """Refuse a corpus or a suffix index whose bytes are not those that were written."""
        GuardedReader(self._plan.store).check_files("tokenize", (TOKENS, DOCUMENTS))
        check_stage(self._plan.store, self._plan.suffix)

    def count(self, unit: ColumnUnit) -> Done:
        """What follows some contexts."""
        plan, nodes = self._plan, [np.empty((0, NODE), np.int64)]
        order = plan.config["order"]
        counter = NodeCounter(plan.index, plan.store.corpus().values_of, order, SCANNED)

        def lists() -> Iterator[NDArray[Any]]:
            place = unit.place
            for block in counter.blocks(place, place + unit.entries):
                self.fill("followers", place, block.followers)
                self.fill("shared", place, block.shared)
                nodes.append(block.nodes)
                place += len(block.followers)
                yield block.lists.ravel()

        written = {"lists": self._write(unit, "lists", lists())}
        every = np.concatenate(nodes)
        written["nodes"] = self._write(
            unit, "nodes", iter([every[np.argsort(every[:, 0])].ravel()])
        )
        written["unigrams"] = self._write(unit, "unigrams", iter([counter.unigrams]))
        inside = {
            plan.part_path(unit, name).relative_to(plan.store.path).as_posix(): digest
            for name, digest in written.items()
        }
        return Done(inside, {"counted": counter.counted.tolist()})

    def _write(self, unit: ColumnUnit, name: str, blocks: Iterator[NDArray[Any]]) -> Any:
        path, kind = self._plan.part_path(unit, name), self._plan.parted[name][0]
        return columns.write_blocks(path, name, kind, blocks)
