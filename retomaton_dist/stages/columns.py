"""What stages have in common whose units fill ranges of columns: `codec`, `compile`, `suffix`.

The columns are made at full size first and lie in `parts/` of the stage's folder while units, of
several kinds, fill them; a kind of units waits for the one before. Finishing moves them into place.
"""

import shutil
import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from retomaton_dist.stages.runner import Done, Plan
from retomaton_dist.storage import preallocated
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.exchange import Traffic
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.preallocated import PartsWriter
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store


@dataclass(frozen=True)
class ColumnUnit:
    """A unit of some `kind`, over first..last-1 of what that kind counts: entries, states, ...

    It has to do with so many `entries`, the first of which goes to `place`; `number` counts the
    units of its kind. A check with a `stage` looks at what is read of that stage's own files.
    """

    kind: str
    first: int
    last: int
    entries: int
    place: int = 0
    number: int = 0
    stage: str = ""


@dataclass(frozen=True)
class ColumnsPlan(Plan[ColumnUnit], PicklesFieldsOnly):
    """A stage whose units fill columns. It is sent to its workers, without what it has mapped."""

    store: Store

    merges = True
    work_name = "steps"
    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of units, in the order of their rounds."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where the columns lie in the end."""

    @abstractmethod
    def filled(self) -> Mapping[str, tuple[Any, int]]:
        """Type and length of the columns that units fill."""

    @property
    def parts(self) -> Path:
        """Where columns lie while they are filled."""
        return self.folder / "parts"

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        return [float(unit.entries) for unit in self.units]

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """The units of each kind."""
        return [
            [number for number, unit in enumerate(self.units) if unit.kind == kind]
            for kind in self.kinds
        ]

    def prepare(self) -> None:
        """Make the columns that units fill."""
        shutil.rmtree(self.folder, ignore_errors=True)
        preallocated.preallocate(self.parts, self.filled())

    def in_place(self) -> dict[str, FileDigest]:
        """Move the filled columns to where they belong."""
        return preallocated.finish(self.parts, self.folder, self.filled())

    def listed(self, columns: Mapping[str, FileDigest]) -> dict[str, FileDigest]:
        """Columns as files of the stage."""
        inside = self.folder.relative_to(self.store.path).as_posix()
        return {f"{inside}/{name}.arrow": digest for name, digest in columns.items()}

    def traffic(self, units: Sequence[Record], written: Mapping[str, FileDigest]) -> Json:
        """Bytes that the units, and finishing them, have read and written: facts of the stage."""
        filled = sum(written[name].bytes for name in self.filled())
        small = sum(digest.bytes for digest in written.values()) - filled
        # Filled columns are read once more for their digests.
        return {
            "bytes_read": filled + sum(unit.facts["bytes_read"] for unit in units),
            "bytes_written": small + sum(unit.facts["bytes_written"] for unit in units),
        }

    def scratch(self) -> Sequence[Path]:
        """Where columns lie while they are filled."""
        return (self.parts,)


class ColumnsWorker:
    """Does units of a plan, each by the method that is named like its kind."""

    def __init__(self, plan: ColumnsPlan) -> None:
        self._columns, self._writer = plan.filled(), PartsWriter(plan.parts)
        # Of this worker alone: another may do the same unit if this one is thought to be lost.
        self.scratch = plan.parts / f"worker-{uuid.uuid4().hex}"
        self.traffic = Traffic()

    def run(self, number: int, payload: ColumnUnit) -> Done:  # noqa: ARG002 - columns are shared
        """Do what the unit says, and count the bytes that it reads and writes."""
        self.traffic.read = self.traffic.written = 0
        with self._writer:
            done: Done = getattr(self, payload.kind)(payload) or Done()
        counted = {"bytes_read": self.traffic.read, "bytes_written": self.traffic.written}
        return replace(done, facts={**done.facts, **counted})

    def counted(self, part: NDArray[Any]) -> NDArray[Any]:
        """A part of a mapped column, counted as read."""
        self.traffic.read += part.nbytes
        return part

    def fill(self, name: str, first: int, block: NDArray[Any]) -> None:
        """Write the numbers first.. of a column; durable when the unit ends."""
        typed = block.astype(self._columns[name][0], copy=False)
        self.traffic.written += typed.nbytes
        self._writer.write(name, first, typed)


def cut(kind: str, entries: int, size: int) -> list[ColumnUnit]:
    """Units over so many entries each, which go where they come from."""
    bounds = ((first, min(first + size, entries)) for first in range(0, entries, size))
    return [
        ColumnUnit(kind, first, last, last - first, first, number)
        for number, (first, last) in enumerate(bounds)
    ]
