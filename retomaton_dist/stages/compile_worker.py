"""The worker of the stage `compile/NAME`: checks sources, and orders, inverts and links ranges."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.layout import invert, link, slot_order
from retomaton_dist.automaton.pieces import SCAN, Arranged, pieces
from retomaton_dist.errors import DamagedStore
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage import automaton, columns, preallocated
from retomaton_dist.storage.automaton import AutomatonShape
from retomaton_dist.storage.codec import BOOKS, CODES, CodecFiles
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.states import States
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.windows import Windows

ROUNDS = ("check", "order", "invert", "link")


@dataclass(frozen=True)
class CompileUnit:
    """What a unit does: entries (check, invert), states (order) or slots (link) first..last-1.

    States have `entries` members, and the first of them goes to the slot `slot`. A check with a
    `stage` looks at what compiling reads of that stage's own files instead.
    """

    kind: str
    first: int
    last: int
    entries: int
    slot: int = 0
    stage: str = ""


@dataclass(frozen=True)
class Blueprint(PicklesFieldsOnly):
    """What is compiled from what, `unit_entries` at a time; `codec` is None for fp16."""

    store: Store
    name: str
    states: States
    shape: AutomatonShape
    codec: CodecFiles | None
    unit_entries: int

    @property
    def folder(self) -> Path:
        """Where the automaton lies."""
        return automaton.folder_of(self.store.path, self.name)

    @property
    def parts(self) -> Path:
        """Where columns lie while they are filled."""
        return self.folder / "parts"

    def filled(self) -> dict[str, tuple[Any, int]]:
        """Type and length of the columns that units fill."""
        small = ("offsets", *BOOKS)
        return {name: kind for name, kind in self.shape.columns().items() if name not in small}

    def sizes(self) -> Iterator[NDArray[np.int64]]:
        """Members of each state, so many states at a time."""
        for first in range(0, self.states.count, SCAN):
            yield self.sizes_of(first, min(first + SCAN, self.states.count))

    def sizes_of(self, first: int, last: int) -> NDArray[np.int64]:
        """Members of each of the states first..last-1."""
        if self.states.algorithm == "none":
            return np.ones(last - first, np.int64)
        return self.states.sizes[first:last]

    @cached_property
    def entries(self) -> Ids:
        """The entry of each slot, once all of them are in order."""
        return self._mapped("entries")

    @cached_property
    def slots(self) -> Ids:
        """The slot of each entry, once all of them are found."""
        return self._mapped("slots")

    def _mapped(self, name: str) -> Ids:
        path = preallocated.part(self.parts, name).path
        return columns.map_columns(path, {name: self.shape.columns()[name][0]})[name]

    @cached_property
    def values(self) -> Windows:
        """The value of each entry."""
        return Windows(self.states.datastore, "values")

    @cached_property
    def pointers(self) -> Windows:
        """The pointer of each entry."""
        return Windows(self.states.datastore, "pointers")

    @cached_property
    def sources(self) -> dict[str, NDArray[Any]]:
        """What is taken along into slot order, a row per entry, by the name of its column."""
        if self.codec is None:
            return {"keys": self.states.datastore.keys}
        return {name: self.codec.rows(name) for name in CODES}

    def read_files(self) -> dict[str, list[str]]:
        """Files that are read besides the datastore's, by the stage that wrote them."""
        root, found = self.store.path, {}
        if self.states.algorithm != "none":
            states = _inside(root, self.states.folder, ("state_of_entry", "sizes"))
            found[f"cluster/{self.states.folder.name}"] = states
        if self.codec is not None:
            codes = _inside(root, self.codec.folder, (*BOOKS, *CODES))
            found[f"codec/{self.codec.folder.name}"] = codes
        return found

    def write_small(self) -> dict[str, FileDigest]:
        """Write the columns that do not grow with N, and the offsets."""
        written = {"offsets": self._write_offsets()}
        if self.codec is not None:
            for name in BOOKS:
                flat = getattr(self.codec, name).reshape(-1)
                written[name] = columns.write_columns(self.folder / f"{name}.arrow", {name: flat})
        return written

    def _write_offsets(self) -> FileDigest:
        """First slot of each state, and N: there may be as many states as entries."""
        kind = self.shape.columns()["offsets"][0]
        return columns.write_blocks(self.folder / "offsets.arrow", "offsets", kind, self._offsets())

    def _offsets(self) -> Iterator[NDArray[np.int64]]:
        end = np.zeros(1, np.int64)
        yield end
        for sizes in self.sizes():
            ends = end + np.cumsum(sizes)
            yield ends
            end = ends[-1:]


def _inside(root: Path, folder: Path, names: tuple[str, ...]) -> list[str]:
    return [f"{folder.relative_to(root).as_posix()}/{name}.arrow" for name in names]


class CompileWorker:
    """Fills ranges of the automaton's columns."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._kinds = blueprint.shape.columns()
        self._parts = {
            name: preallocated.part(blueprint.parts, name) for name in blueprint.filled()
        }

    def run(self, number: int, payload: CompileUnit) -> Done:  # noqa: ARG002 - columns are shared
        """Do what the unit says; nothing is written but parts of columns."""
        if payload.kind == "check":
            self._check(payload)
        else:
            work = {"order": self._order, "invert": self._invert, "link": self._link}[payload.kind]
            work(payload)
        return Done()

    @cached_property
    def _reader(self) -> GuardedReader:
        return GuardedReader(self._blueprint.store)

    def _check(self, unit: CompileUnit) -> None:
        """Refuse sources whose bytes are not those that their stages wrote."""
        blueprint = self._blueprint
        if unit.stage:
            self._reader.check_files(unit.stage, blueprint.read_files()[unit.stage])
            return
        wanted = ("values", "pointers") + (("keys",) if blueprint.codec is None else ())
        self._reader.check(wanted, unit.first, unit.last)

    def _order(self, unit: CompileUnit) -> None:
        """Entries of some states by (state, value, entry), with all that they have."""
        missing, slot = self._blueprint.sizes_of(unit.first, unit.last).copy(), unit.slot
        self._check_sizes(int(missing.sum()) == unit.entries)
        for arranged in self._pieces(unit):
            # Checked before it is written: what lies behind belongs to other units.
            missing -= np.bincount(arranged.states - unit.first, minlength=len(missing))
            self._check_sizes(missing.min() >= 0)
            self._write_piece(slot, arranged)
            slot += len(arranged.order)
        self._check_sizes(not missing.any())

    def _pieces(self, unit: CompileUnit) -> Iterator[Arranged]:
        states, most = self._blueprint.states, self._blueprint.unit_entries
        numbers = None if states.algorithm == "none" else states.state_of_entry
        values = self._blueprint.values
        return pieces(numbers, values, unit.first, unit.last, unit.entries, most)

    def _check_sizes(self, fitting: np.bool_ | bool) -> None:
        if not fitting:
            raise DamagedStore(
                f"{self._blueprint.states.folder}: its sizes do not match its states; cluster anew"
            )

    def _write_piece(self, slot: int, arranged: Arranged) -> None:
        self._write("entries", slot, arranged.entries)
        self._write("values", slot, arranged.values)
        self._write("states", slot, arranged.states)
        for name, source in self._blueprint.sources.items():
            width = self._kinds[name][1] // self._blueprint.shape.entries
            self._parts[name].fill(slot * width, arranged.rows(source))

    def _invert(self, unit: CompileUnit) -> None:
        """Slots of some entries."""
        first, last = unit.first, unit.last
        kind = self._kinds["slots"][0]
        none = np.array(-1).astype(kind)
        slots = np.full(last - first, none, kind)
        invert(self._blueprint.entries, first, slots)
        if (slots == none).any():
            raise DamagedStore(
                f"{self._blueprint.parts / 'entries.arrow'} lacks entry "
                f"{first + int((slots == none).argmax())}: values or states changed meanwhile; "
                f"compile anew under another --name"
            )
        self._write("slots", first, slots)

    def _link(self, unit: CompileUnit) -> None:
        """Next slots of some slots."""
        first, last = unit.first, unit.last
        kind = self._kinds["nexts"][0]
        entries = self._blueprint.entries[first:last]
        order = slot_order(entries, np.zeros(len(entries), np.int32))
        nexts = np.full(last - first, np.array(-1).astype(kind), kind)
        # Sources are read in their own order: a sweep, not a jump per entry.
        pointers = self._blueprint.pointers[entries[order]]
        link(pointers, self._blueprint.slots, order, nexts)
        self._write("nexts", first, nexts)

    def _write(self, name: str, first: int, numbers: NDArray[Any]) -> None:
        self._parts[name].fill(first, [numbers.astype(self._kinds[name][0], copy=False)])
