"""The worker of the stage `compile/NAME`: checks sources; sends, orders, inverts and links."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.layout import scatter, slot_order
from retomaton_dist.automaton.sorting import Keys, Order, Sorter
from retomaton_dist.errors import DamagedStore
from retomaton_dist.stages.columns import ColumnsWorker, ColumnUnit
from retomaton_dist.storage.datastore import DTYPES
from retomaton_dist.storage.exchange import Exchange, Records, as_bytes
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.windows import Windows

if TYPE_CHECKING:
    from retomaton_dist.stages.compile import CompilePlan

# Of a column that is written in slot order, at a time.
BLOCK_BYTES = 16 << 20

Sent = Iterator[tuple[NDArray[Any], Records]]
"""Destinations, each with its record."""


class CompileWorker(ColumnsWorker):
    """Fills ranges of the automaton's columns; `firsts` are the first states of the ranges."""

    def __init__(self, plan: "CompilePlan", firsts: NDArray[np.int64]) -> None:
        super().__init__(plan)
        self._plan, self._states, self._firsts = plan, plan.states, firsts
        self._entries, self._most, self._size = plan.shape.entries, plan.most, plan.range_size
        ids, ranges = self._columns["slots"][0], -(-self._entries // self._size)
        pair = np.dtype([("place", ids), ("number", ids)])
        orders = len(firsts)
        self._to_states = self._exchange("entries", plan.record, ranges, orders)
        self._to_entries = self._exchange("slots", pair, orders, ranges)
        self._to_slots = self._exchange("nexts", pair, ranges, ranges)

    def _exchange(self, name: str, record: np.dtype[Any], senders: int, ranges: int) -> Exchange:
        folder = self._plan.parts / "sent" / name
        return Exchange(folder, record, senders, ranges, self._most, self.traffic)

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
    def _sources(self) -> dict[str, NDArray[Any]]:
        """What is taken along into slot order, a row per entry, by the name of its column."""
        codes = self._plan.codes
        if codes is None:
            return {"keys": self._states.datastore.keys}
        return {name: codes.row(name) for name in codes.rows}

    def check(self, unit: ColumnUnit) -> None:
        """Refuse sources whose bytes are not those that their stages wrote."""
        if unit.stage:
            paths = self._plan.read_files()[unit.stage]
            self._reader.check_files(unit.stage, paths)
            listed = self._plan.store.stage(unit.stage).files
            self.traffic.read += sum(listed[path].bytes for path in paths)
            return
        wanted = ("values", "pointers") + (("keys",) if self._plan.codes is None else ())
        self._reader.check(wanted, unit.first, unit.last)
        widths = {**dict.fromkeys(DTYPES, 1), "keys": self._plan.shape.dimension}
        row = sum(np.dtype(DTYPES[name]).itemsize * widths[name] for name in wanted)
        self.traffic.read += row * unit.entries

    def send(self, unit: ColumnUnit) -> None:
        """Send some entries, with all that they have, to the ranges of their states."""
        self._to_states.send(unit.number, self._with_rows(unit.first, unit.last))

    def _with_rows(self, begin: int, end: int) -> Sent:
        for first in range(begin, end, self._most):
            last = min(first + self._most, end)
            records = np.empty(last - first, self._plan.record)
            records["entries"] = np.arange(first, last)
            if self._states.algorithm == "none":
                records["states"] = records["entries"]
            else:
                records["states"] = self.counted(self._states.state_of_entry[first:last])
            records["values"] = self.counted(self._values[first:last])
            for name, source in self._sources.items():
                rows = self.counted(source[first:last])
                records[name] = rows.reshape(last - first, -1)
            yield np.searchsorted(self._firsts, records["states"], side="right") - 1, records

    def order(self, unit: ColumnUnit) -> None:
        """Entries of some states by (state, value, entry), with all that they have."""
        self._to_entries.send(unit.number, self._ordered(unit))

    def _ordered(self, unit: ColumnUnit) -> Sent:
        """Fill the columns in slot order, and send slots to their entries' ranges."""
        missing, slot = self._plan.sizes_of(unit.first, unit.last).copy(), unit.place
        self._check_sizes(int(missing.sum()) == unit.entries)
        for records, order in self._pieces(unit):
            # Checked before it is written: what lies behind belongs to other units.
            states = records["states"].astype(np.int64) - unit.first
            self._check_sizes(states.min() >= 0 and states.max() < len(missing))
            missing -= np.bincount(states, minlength=len(missing))
            self._check_sizes(missing.min() >= 0)
            self._write_piece(slot, records, order)
            yield self._slots_sent(records["entries"][order], slot)
            slot += len(order)
        self._check_sizes(not missing.any())

    def _pieces(self, unit: ColumnUnit) -> Iterator[tuple[Records, Order]]:
        if self._entries <= self._most:
            # Everything fits in memory, and was not sent.
            for _, records in self._with_rows(0, self._entries):
                yield records, _order(records)
            return
        sorter = Sorter(self._plan.record, _keys, _order, self._most, self.scratch)
        yield from sorter.pieces(self._to_states, self._to_states.slices(unit.number))

    def _check_sizes(self, fitting: np.bool_ | bool) -> None:
        if not fitting:
            raise DamagedStore(
                f"{self._states.folder}: its sizes do not match its states; cluster anew"
            )

    def _write_piece(self, slot: int, records: Records, order: Order) -> None:
        rows, count = as_bytes(records), max(1, BLOCK_BYTES // records.itemsize)
        for first in range(0, len(order), count):
            block = rows.take(order[first : first + count], axis=0).view(records.dtype)
            for name in records.dtype.names or ():
                column = block[name].reshape(len(block), -1)
                self.fill(name, (slot + first) * column.shape[1], column)

    def _slots_sent(self, entries: Ids, slot: int) -> tuple[NDArray[Any], Records]:
        """Slots from this one on, for the ranges of their entries.

        The first entry of a range is also sent to the range before: its last entry leads there.
        """
        slots = np.arange(slot, slot + len(entries))
        ranges, within = np.divmod(entries, self._size)
        edges = np.flatnonzero((within == 0) & (ranges > 0))
        every = np.concatenate([np.arange(len(entries)), edges])
        records = np.empty(len(every), self._to_entries.record)
        records["place"], records["number"] = entries[every], slots[every]
        return np.concatenate([ranges, ranges[edges] - 1]), records

    def invert(self, unit: ColumnUnit) -> None:
        """Slots of some entries, and for these slots the next ones."""
        self._to_slots.send(unit.number, self._followed(unit))

    def _followed(self, unit: ColumnUnit) -> Sent:
        """Fill the slots of entries, and send where each leads to its slot's range."""
        # The last entry leads to the first one of the next range.
        last = min(unit.last + 1, self._entries)
        before = np.empty(0, self._columns["slots"][0])
        for first, slots in self._received(self._to_entries, unit, last):
            self.fill("slots", first, slots[: unit.last - first])
            run, begin = np.concatenate([before, slots]), first - len(before)
            ends_here = first + len(slots) == unit.last == self._entries
            end = len(run) if ends_here else len(run) - 1
            yield self._nexts_sent(run, begin, begin + end)
            before = run[end:]

    def _nexts_sent(self, run: Ids, first: int, last: int) -> tuple[NDArray[Any], Records]:
        """The next slot of each of the entries first..last-1; `run` are slots from there on."""
        pointers = self.counted(self._pointers[first:last])
        expected = np.arange(first + 1, last + 1)
        wrong = np.flatnonzero((pointers >= 0) & (pointers != expected))
        if len(wrong) or (last == self._entries and pointers[-1] >= 0):
            raise DamagedStore(
                f"{self._plan.store.path}: a pointer of the entries {first}..{last - 1} leads "
                f"elsewhere than to the next entry; extract anew"
            )
        none = np.array(-1).astype(run.dtype)
        records = np.empty(last - first, self._to_slots.record)
        records["place"], records["number"] = run[: last - first], none
        follows = np.flatnonzero(pointers >= 0)
        records["number"][follows] = run[follows + 1]
        return records["place"] // self._size, records

    def link(self, unit: ColumnUnit) -> None:
        """Next slots of some slots."""
        for first, nexts in self._received(self._to_slots, unit, unit.last):
            self.fill("nexts", first, nexts)

    def _received(self, inbox: Exchange, unit: ColumnUnit, last: int) -> Iterator[tuple[int, Ids]]:
        """What was sent for the places first..last-1, as much at a time as fits in memory."""
        first, number = unit.first, unit.number
        if last - first <= self._most + 1:
            yield first, self._scattered(inbox, number, first, last)
            return
        parts = -(-(last - first) // self._most)
        divided = Exchange(self.scratch, inbox.record, 1, parts, self._most, self.traffic)
        every = inbox.read(inbox.slices(number))
        divided.send(0, (((some["place"] - first) // self._most, some) for some in every))
        for part in range(parts):
            begin = first + part * self._most
            yield begin, self._scattered(divided, part, begin, min(begin + self._most, last))
        divided.remove()

    def _scattered(self, inbox: Exchange, number: int, first: int, last: int) -> Ids:
        column = np.empty(last - first, self._columns["slots"][0])
        count = 0
        for records in inbox.read(inbox.slices(number)):
            count += int(scatter(records["place"], records["number"], first, column))
        if count != len(column):
            raise DamagedStore(
                f"{inbox.folder}: {count:,} numbers instead of {len(column):,} were sent: "
                f"values or states changed meanwhile; compile anew under another --name"
            )
        return column


def _keys(records: Records) -> Keys:
    """Numbers in slot order."""
    states = records["states"].astype(np.uint64) << np.uint64(32)
    values = records["values"].astype(np.int64) + (1 << 31)
    return (states | values.astype(np.uint64))[:, None]


def _order(records: Records) -> Order:
    states = records["states"]
    return slot_order(states - states.min(), np.ascontiguousarray(records["values"]))
