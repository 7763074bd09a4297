"""The worker of the stage `compile/NAME`: checks sources, and orders, inverts and links ranges."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.layout import invert, link, slot_order
from retomaton_dist.automaton.pieces import Arranged, pieces
from retomaton_dist.errors import DamagedStore
from retomaton_dist.stages.columns import ColumnsWorker, ColumnUnit
from retomaton_dist.storage import columns, preallocated
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.windows import Windows

if TYPE_CHECKING:
    from retomaton_dist.stages.compile import CompilePlan


class CompileWorker(ColumnsWorker):
    """Fills ranges of the automaton's columns."""

    def __init__(self, plan: "CompilePlan") -> None:
        super().__init__(plan)
        self._plan, self._states = plan, plan.states

    @cached_property
    def _reader(self) -> GuardedReader:
        return GuardedReader(self._plan.store)

    @cached_property
    def _values(self) -> Windows:
        """The value of each entry."""
        return Windows(self._states.datastore, "values")

    @cached_property
    def _pointers(self) -> Windows:
        """The pointer of each entry."""
        return Windows(self._states.datastore, "pointers")

    @cached_property
    def _entries(self) -> Ids:
        """The entry of each slot, once all of them are in order."""
        return self._mapped("entries")

    @cached_property
    def _slots(self) -> Ids:
        """The slot of each entry, once all of them are found."""
        return self._mapped("slots")

    def _mapped(self, name: str) -> Ids:
        path = preallocated.part(self._plan.parts, name).path
        return columns.map_columns(path, {name: self._columns[name][0]})[name]

    @cached_property
    def _sources(self) -> dict[str, NDArray[Any]]:
        """What is taken along into slot order, a row per entry, by the name of its column."""
        codes = self._plan.codes
        if codes is None:
            return {"keys": self._states.datastore.keys}
        return {name: codes.row(name) for name in codes.rows}

    def check(self, unit: ColumnUnit) -> None:
        """Refuse sources whose bytes are not those that their stages wrote."""
        if unit.stage:
            self._reader.check_files(unit.stage, self._plan.read_files()[unit.stage])
            return
        wanted = ("values", "pointers") + (("keys",) if self._plan.codes is None else ())
        self._reader.check(wanted, unit.first, unit.last)

    def order(self, unit: ColumnUnit) -> None:
        """Entries of some states by (state, value, entry), with all that they have."""
        missing, slot = self._plan.sizes_of(unit.first, unit.last).copy(), unit.place
        self._check_sizes(int(missing.sum()) == unit.entries)
        for arranged in self._pieces(unit):
            # Checked before it is written: what lies behind belongs to other units.
            missing -= np.bincount(arranged.states - unit.first, minlength=len(missing))
            self._check_sizes(missing.min() >= 0)
            self._write_piece(slot, arranged)
            slot += len(arranged.order)
        self._check_sizes(not missing.any())

    def _pieces(self, unit: ColumnUnit) -> Iterator[Arranged]:
        states, most = self._states, self._plan.settings.unit_entries
        numbers = None if states.algorithm == "none" else states.state_of_entry
        return pieces(numbers, self._values, unit.first, unit.last, unit.entries, most)

    def _check_sizes(self, fitting: np.bool_ | bool) -> None:
        if not fitting:
            raise DamagedStore(
                f"{self._states.folder}: its sizes do not match its states; cluster anew"
            )

    def _write_piece(self, slot: int, arranged: Arranged) -> None:
        self.fill("entries", slot, [arranged.entries])
        self.fill("values", slot, [arranged.values])
        self.fill("states", slot, [arranged.states])
        for name, source in self._sources.items():
            width = self._columns[name][1] // self._plan.shape.entries
            self.fill(name, slot * width, arranged.rows(source))

    def invert(self, unit: ColumnUnit) -> None:
        """Slots of some entries."""
        first, last = unit.first, unit.last
        kind = self._columns["slots"][0]
        none = np.array(-1).astype(kind)
        slots = np.full(last - first, none, kind)
        invert(self._entries, first, slots)
        if (slots == none).any():
            raise DamagedStore(
                f"{self._plan.parts / 'entries.arrow'} lacks entry "
                f"{first + int((slots == none).argmax())}: values or states changed meanwhile; "
                f"compile anew under another --name"
            )
        self.fill("slots", first, [slots])

    def link(self, unit: ColumnUnit) -> None:
        """Next slots of some slots."""
        first, last = unit.first, unit.last
        kind = self._columns["nexts"][0]
        entries = self._entries[first:last]
        order = slot_order(entries, np.zeros(len(entries), np.int32))
        nexts = np.full(last - first, np.array(-1).astype(kind), kind)
        # Sources are read in their own order: a sweep, not a jump per entry.
        link(self._pointers[entries[order]], self._slots, order, nexts)
        self.fill("nexts", first, [nexts])
