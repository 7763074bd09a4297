"""The stage `suffix/NAME`: entries in the order of the tokens before them, ready to be mapped.

Three rounds of units, each over what the round before has finished:

    check    the corpus: are its bytes sound?
    before   entries first..last-1: the token before each                     -> before
    order    contexts whose latest token is first..last-1: gather and sort    -> order

A unit holds about `unit_entries` entries in memory, whatever N and its commonest token are;
besides, 8 bytes per token of the vocabulary. No key is read, and no model.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from retomaton_dist.settings import SuffixSettings
from retomaton_dist.stages.runner import Done, Plan
from retomaton_dist.storage import columns, preallocated, suffixes
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import DOCUMENTS, TOKENS, Corpus
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.suffixes import SuffixShape

ROUNDS = ("check", "before", "order")
FILLED = ("order", "before")


@dataclass(frozen=True)
class SuffixUnit:
    """What a unit does: entries (before) or latest tokens, counted from 1 (order), first..last-1.

    For `order`, `place` is where the first of them goes, and `entries` how many there are.
    """

    kind: str
    first: int
    last: int
    place: int
    entries: int


@dataclass(frozen=True)
class SuffixPlan(Plan[SuffixUnit], PicklesFieldsOnly):
    """A corpus, and the suffix index that it is to have."""

    store: Store
    settings: SuffixSettings

    merges = True

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
        return suffixes.folder_of(self.store.path, self.settings.name)

    @property
    def parts(self) -> Path:
        """Where columns lie while they are filled."""
        return self.folder / "parts"

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First place of each latest token, counted from 1; then N. Place 0 is the first's."""
        counts = np.zeros(self.shape.vocabulary + 1, np.int64)
        for first, last in _cut(self.shape.entries, SCAN):
            # What is out of range is damage, which the units will find.
            tokens = first_tokens(self.corpus.before(first, last)).clip(0, len(counts) - 1)
            counts += np.bincount(tokens, minlength=len(counts))
        return np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def units(self) -> list[SuffixUnit]:
        """All units, round by round."""
        size, offsets = self.settings.unit_entries, self.offsets
        filled = [
            SuffixUnit("before", first, last, first, last - first)
            for first, last in _cut(self.shape.entries, size)
        ]
        ordered = [
            SuffixUnit("order", low, high, int(offsets[low]), int(offsets[high] - offsets[low]))
            for low, high in ranges_within(offsets, size)
        ]
        return [SuffixUnit("check", 0, 0, 0, self.shape.entries), *filled, *ordered]

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        return [float(unit.entries) for unit in self.units]

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """Check, before, order."""
        return [
            [number for number, unit in enumerate(self.units) if unit.kind == kind]
            for kind in ROUNDS
        ]

    def worker(self) -> Callable[[], "SuffixWorker"]:
        """Fills ranges of the columns."""
        return partial(SuffixWorker, self)

    def prepare(self) -> None:
        """Make the columns that units fill."""
        shutil.rmtree(self.folder, ignore_errors=True)
        kinds = self.shape.columns()
        preallocated.preallocate(self.parts, {name: kinds[name] for name in FILLED})

    def finish(self, units: Sequence[Record]) -> Done:  # noqa: ARG002 - columns are filled
        """Write where tokens start, move the filled columns into place, and describe them."""
        starts = self.offsets[1:].astype(self.shape.columns()["starts"][0])
        listed = {"starts": columns.write_columns(self.folder / "starts.arrow", {"starts": starts})}
        listed |= preallocated.finish(self.parts, self.folder, FILLED)
        inside = self.folder.relative_to(self.store.path).as_posix()
        files = {f"{inside}/{name}.arrow": digest for name, digest in listed.items()}
        description = suffixes.write_description(self.folder, self.shape, listed)
        files[f"{inside}/{suffixes.DESCRIPTION}"] = description
        total = sum(digest.bytes for digest in listed.values())
        return Done(files, {**asdict(self.shape), "bytes_per_entry": total / self.shape.entries})

    def scratch(self) -> Sequence[Path]:
        """Where columns lie while they are filled."""
        return (self.parts,)


class SuffixWorker:
    """Fills ranges of a suffix index's columns."""

    def __init__(self, plan: SuffixPlan) -> None:
        self._plan = plan

    def run(self, number: int, payload: SuffixUnit) -> Done:  # noqa: ARG002 - columns are shared
        """Do what the unit says; nothing is written but parts of columns."""
        if payload.kind == "check":
            GuardedReader(self._plan.store).check_files("tokenize", (TOKENS, DOCUMENTS))
        elif payload.kind == "before":
            cut = _cut(payload.entries, SCAN)
            ranges = ((payload.first + first, payload.first + last) for first, last in cut)
            self._fill("before", payload, (self._plan.corpus.before(*bounds) for bounds in ranges))
        else:
            self._fill("order", payload, self._ordered(payload))
        return Done()

    @cached_property
    def _before(self) -> NDArray[np.int32]:
        """The token before each entry, once all of them are filled."""
        path = preallocated.part(self._plan.parts, "before").path
        return columns.map_columns(path, {"before": np.int32})["before"]

    def _ordered(self, unit: SuffixUnit) -> Iterator[Ids]:
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

    def _fill(self, name: str, unit: SuffixUnit, blocks: Iterable[NDArray[Any]]) -> None:
        kind = self._plan.shape.columns()[name][0]
        typed = (block.astype(kind, copy=False) for block in blocks)
        preallocated.part(self._plan.parts, name).fill(unit.place, typed)


def plan_suffix(store: Store, settings: SuffixSettings) -> SuffixPlan:
    """Lay out the suffix index of a corpus that is tokenised."""
    store.stage("tokenize")
    return SuffixPlan(store, settings)


def _cut(entries: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, entries)) for first in range(0, entries, size)]
