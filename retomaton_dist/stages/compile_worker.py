"""The worker of the stage `compile/NAME`: sorts, inverts and fills ranges of the automaton."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.layout import next_slots
from retomaton_dist.errors import DamagedStore
from storage import automaton, columns, preallocated, records
from storage.automaton import AutomatonShape
from storage.canonical import Json
from storage.codec import BOOKS, CODES, CodecFiles
from storage.files import FileDigest
from storage.records import Record
from storage.sending import WithoutCaches
from storage.states import States
from storage.store import Store
from storage.verify import check_chunks

ROUNDS = ("order", "invert", "fill")
SCAN = 1 << 20


@dataclass(frozen=True)
class Share:
    """A unit: states (order), entries (invert) or slots (fill) first..last-1."""

    kind: str
    first: int
    last: int


@dataclass(frozen=True)
class Blueprint(WithoutCaches):
    """What is compiled from what; `codec` is None for fp16."""

    store: Store
    name: str
    states: States
    shape: AutomatonShape
    codec: CodecFiles | None

    @property
    def folder(self) -> Path:
        """Where the automaton lies."""
        return automaton.folder_of(self.store.path, self.name)

    def part(self, name: str) -> Path:
        """Where a column lies while it is filled."""
        return self.folder / "parts" / f"{name}.arrow"

    def filled(self) -> list[str]:
        """Columns that units fill."""
        return [name for name in self.shape.columns() if name not in ("offsets", *BOOKS)]

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First slot of each state, and N."""
        return np.concatenate([[0], np.cumsum(self.states.sizes)]).astype(np.int64)

    def mapped(self, name: str) -> NDArray[Any]:
        """A column that a round before has filled."""
        return columns.map_columns(self.part(name), {name: self.shape.columns()[name][0]})[name]

    def write_small(self) -> dict[str, FileDigest]:
        """Write the columns that do not grow with N, and the offsets."""
        small: dict[str, NDArray[Any]] = {"offsets": self.offsets}
        if self.codec is not None:
            small |= {"centroids": self.codec.centroids, "codebooks": self.codec.codebooks}
        kinds = self.shape.columns()
        return {
            name: columns.write_columns(
                self.folder / f"{name}.arrow", {name: values.reshape(-1).astype(kinds[name][0])}
            )
            for name, values in small.items()
        }


class CompileWorker:
    """Fills ranges of the automaton's columns."""

    def __init__(self, blueprint: Blueprint, config_hash: str) -> None:
        self._blueprint, self._config_hash = blueprint, config_hash
        self._datastore = blueprint.store.datastore()

    def run(self, unit: tuple[int, Share]) -> Json:
        """Fill the unit's range, then write its record."""
        number, share = unit
        work = {"order": self._order, "invert": self._invert, "fill": self._fill}[share.kind]
        work(share.first, share.last)
        record = Record(number, self._config_hash, {})
        records.write(self._blueprint.store.path, f"compile/{self._blueprint.name}", record)
        return {}

    def _order(self, first: int, last: int) -> None:
        """Entries of the states first..last-1, by (state, value, entry)."""
        states, offsets = self._blueprint.states, self._blueprint.offsets
        if states.algorithm == "none":
            entries = np.arange(first, last)
        else:
            entries = _within(states.state_of_entry, first, last)
            state = states.state_of_entry[entries].astype(np.int64) - first
            entries = entries[slot_order(state, self._datastore.values[entries])]
        if len(entries) != offsets[last] - offsets[first]:
            raise DamagedStore(f"{states.folder}: its sizes do not match its states; cluster anew")
        self._write("entries", int(offsets[first]), entries)

    def _invert(self, first: int, last: int) -> None:
        """Slots of the entries first..last-1; what is read of them later is checked here."""
        wanted = ("values", "pointers") + (("keys",) if self._blueprint.codec is None else ())
        size = self._datastore.shape.chunk_entries
        check_chunks(self._blueprint.store, range(first // size, -(-last // size)), wanted)
        entries = self._blueprint.mapped("entries")
        found = _within(entries, first, last)
        slots = np.full(last - first, -1)
        slots[entries[found].astype(np.int64) - first] = found
        if slots.min() < 0:
            raise DamagedStore(
                f"{self._blueprint.part('entries')} lacks entry {first + int(slots.argmin())}: "
                f"values or states changed meanwhile; compile anew under another --name"
            )
        self._write("slots", first, slots)

    def _fill(self, first: int, last: int) -> None:
        """Values, pointers, states and codes of the slots first..last-1."""
        blueprint, datastore = self._blueprint, self._datastore
        entries = blueprint.mapped("entries")[first:last].astype(np.int64)
        # Sources are read in their own order: a sweep, not a jump per entry.
        order = np.argsort(entries)
        gather = _Gather(entries[order], order)
        self._write("values", first, gather(datastore.values))
        self._write("nexts", first, gather(datastore.pointers, blueprint.mapped("slots")))
        slots = np.arange(first, last)
        states = np.searchsorted(blueprint.offsets, slots, side="right") - 1
        self._write("states", first, states)
        if blueprint.codec is None:
            keys = gather(datastore.keys)
            self._write("keys", first * blueprint.shape.dimension, keys.reshape(-1))
            return
        for name in CODES:
            rows = gather(blueprint.codec.rows(name))
            width = blueprint.shape.code_size if name == "codes" else 1
            self._write(name, first * width, rows.reshape(-1))

    def _write(self, name: str, first: int, numbers: NDArray[Any]) -> None:
        kind, _ = self._blueprint.shape.columns()[name]
        preallocated.fill(self._blueprint.part(name), first, numbers.astype(kind, copy=False))


@dataclass(frozen=True)
class _Gather:
    """Takes rows of chosen entries: `entries` ascend, `order` says where each belongs."""

    entries: NDArray[np.int64]
    order: NDArray[np.int64]

    def __call__(self, source: NDArray[Any], slots: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = source[self.entries]
        if slots is not None:
            rows = next_slots(rows, slots)
        placed = np.empty_like(rows)
        placed[self.order] = rows
        return placed


def _within(numbers: NDArray[Any], first: int, last: int) -> NDArray[np.int64]:
    """Where numbers are in first..last-1, ascending; reads them block by block."""
    found = []
    for start in range(0, len(numbers), SCAN):
        block = numbers[start : start + SCAN]
        found.append(np.flatnonzero((block >= first) & (block < last)) + start)
    return np.concatenate(found)


def slot_order(states: NDArray[np.int64], values: NDArray[np.int32]) -> NDArray[np.int64]:
    """The stable order by (state, value); states begin at 0."""
    rows = len(states)
    place_bits, value_bits = rows.bit_length(), int(values.max(initial=0)).bit_length()
    fits = int(states.max(initial=0)).bit_length() + value_bits + place_bits < 64
    if not fits or values.min(initial=0) < 0:
        return np.lexsort((values, states))
    # One number holds all three: sorting plain numbers is far faster than sorting by keys.
    packed = ((states << value_bits) | values) << place_bits | np.arange(rows)
    packed.sort()
    return packed & ((1 << place_bits) - 1)
