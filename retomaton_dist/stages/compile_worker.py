"""The worker of the stage `compile/NAME`: checks sources, and orders, inverts and links ranges."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.layout import invert, link, slot_order
from retomaton_dist.errors import DamagedStore
from retomaton_dist.stages.compile_pieces import Arranged, pieces
from storage import automaton, columns, files, preallocated, records
from storage.automaton import AutomatonShape
from storage.canonical import Json
from storage.codec import BOOKS, CODES, CodecFiles
from storage.files import FileDigest
from storage.records import Record
from storage.sending import WithoutCaches
from storage.states import States
from storage.store import Store
from storage.verify import check_chunks

ROUNDS = ("check", "order", "invert", "link")


@dataclass(frozen=True)
class Share:
    """A unit: entries (check, invert), states (order) or slots (link) first..last-1.

    A check with a `stage` looks at what compiling reads of that stage's own files instead.
    """

    kind: str
    first: int
    last: int
    stage: str = ""


@dataclass(frozen=True)
class Blueprint(WithoutCaches):
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

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First slot of each state, and N."""
        return np.concatenate([[0], np.cumsum(self.states.sizes)]).astype(np.int64)

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


def _inside(root: Path, folder: Path, names: tuple[str, ...]) -> list[str]:
    return [f"{folder.relative_to(root).as_posix()}/{name}.arrow" for name in names]


class CompileWorker:
    """Fills ranges of the automaton's columns."""

    def __init__(self, blueprint: Blueprint, config_hash: str) -> None:
        self._blueprint, self._config_hash = blueprint, config_hash
        self._kinds = blueprint.shape.columns()
        self._parts = {
            name: preallocated.part(blueprint.parts, name) for name in blueprint.filled()
        }

    def run(self, unit: tuple[int, Share]) -> Json:
        """Do the unit, then write its record."""
        number, share = unit
        if share.kind == "check":
            self._check(share)
        else:
            work = {"order": self._order, "invert": self._invert, "link": self._link}[share.kind]
            work(share.first, share.last)
        record = Record(number, self._config_hash, {})
        records.write(self._blueprint.store.path, f"compile/{self._blueprint.name}", record)
        return {}

    def _check(self, share: Share) -> None:
        """Refuse sources whose bytes are not those that their stages wrote."""
        blueprint, store = self._blueprint, self._blueprint.store
        if share.stage:
            listed = store.stage(share.stage).files
            for name in blueprint.read_files()[share.stage]:
                check_file(store.path, name, listed[name], share.stage)
            return
        wanted = ("values", "pointers") + (("keys",) if blueprint.codec is None else ())
        size = blueprint.states.datastore.shape.chunk_entries
        check_chunks(store, range(share.first // size, -(-share.last // size)), wanted)

    def _order(self, first: int, last: int) -> None:
        """Entries of the states first..last-1 by (state, value, entry), with all that they have."""
        blueprint, missing = self._blueprint, np.diff(self._blueprint.offsets[first : last + 1])
        slot, expected = int(blueprint.offsets[first]), int(missing.sum())
        for arranged in pieces(blueprint.states, first, last, expected, blueprint.unit_entries):
            # Checked before it is written: what lies behind belongs to other units.
            missing -= np.bincount(arranged.states - first, minlength=last - first)
            self._check_sizes(missing.min() >= 0)
            self._write_piece(slot, arranged)
            slot += len(arranged.order)
        self._check_sizes(not missing.any())

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

    def _invert(self, first: int, last: int) -> None:
        """Slots of the entries first..last-1."""
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

    def _link(self, first: int, last: int) -> None:
        """Next slots of the slots first..last-1."""
        kind = self._kinds["nexts"][0]
        entries = self._blueprint.entries[first:last]
        order = slot_order(entries, np.zeros(len(entries), np.int32))
        nexts = np.full(last - first, np.array(-1).astype(kind), kind)
        # Sources are read in their own order: a sweep, not a jump per entry.
        pointers = self._blueprint.states.datastore.pointers
        link(pointers, self._blueprint.slots, entries[order], order, nexts)
        self._write("nexts", first, nexts)

    def _write(self, name: str, first: int, numbers: NDArray[Any]) -> None:
        self._parts[name].fill(first, [numbers.astype(self._kinds[name][0], copy=False)])


def check_file(root: Path, name: str, expected: FileDigest, stage: str) -> None:
    """Refuse a file of the store whose bytes are not those that its stage wrote."""
    path = root / name
    if not path.is_file() or files.digest_of(path) != expected:
        raise DamagedStore(
            f"{path} is missing or was altered; `retomaton verify {root} --repair`, then run its "
            f"stage {stage} again"
        )
