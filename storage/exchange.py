"""Exchanges: records that units of one round write for the units of a later round (a shuffle).

Each sender writes one file. It consists of runs, of what fits in memory: a table of where each
destination's records begin, then the records, by destination. A receiver reads its own slice of
every run; so every record is written once and read once, however many units there are. The files
are scratch: whoever owns the folder removes them.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage import files
from retomaton_dist.storage.errors import DamagedStore

# With more destinations the slices of a run would be too small to be read one by one.
MOST_DESTINATIONS = 4096
# Of a run, while it is written by destination.
BLOCK_BYTES = 16 << 20
# A run fits in memory: it has far fewer records than 2^32.
OFFSET = np.dtype(np.uint32)

Records = NDArray[Any]
"""Records of one structured type."""


@dataclass
class Traffic:
    """Bytes that were read and written."""

    read: int = 0
    written: int = 0


class Slice(NamedTuple):
    """Records of some destinations in one run of a sender.

    `counts` are those of each destination, `before` those that go to lower ones.
    """

    sender: int
    run: int
    place: int
    counts: NDArray[np.uint32]
    before: int

    @property
    def records(self) -> int:
        """How many they are."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class Exchange:
    """Records from `senders` to `destinations`, in runs of at most `most` records."""

    folder: Path
    record: np.dtype[Any]
    senders: int
    destinations: int
    most: int
    traffic: Traffic = field(default_factory=Traffic)

    def send(self, sender: int, parts: Iterable[tuple[NDArray[Any], Records]]) -> None:
        """Write all that a sender has, durably: destinations, each with its record.

        What a destination gets keeps the order in which it was sent.
        """
        held: list[tuple[NDArray[Any], Records]] = []
        count = 0
        with files.replacing(self._path(sender)) as file:
            for part in parts:
                if held and count + len(part[1]) > self.most:
                    self._write_run(file, held)
                    held, count = [], 0
                held.append(part)
                count += len(part[1])
            self._write_run(file, held)
        self.traffic.written += file.result.bytes

    def slices(self, first: int, last: int | None = None) -> list[Slice]:
        """What one destination, or first..last-1 together, were sent, in the order of senders."""
        count = 1 if last is None else last - first
        found: list[Slice] = []
        for sender in range(self.senders):
            with _opened(self._path(sender)) as descriptor:
                size, run, place = os.fstat(descriptor).st_size, 0, 0
                while place < size:
                    at = place + OFFSET.itemsize * first
                    offsets = self._read(descriptor, at, count + 1, OFFSET)
                    body = place + self._table
                    (total,) = self._read(descriptor, body - OFFSET.itemsize, 1, OFFSET).tolist()
                    begin = body + int(offsets[0]) * self.record.itemsize
                    found.append(Slice(sender, run, begin, np.diff(offsets), int(offsets[0])))
                    run, place = run + 1, body + total * self.record.itemsize
        return found

    def read(self, slices: Iterable[Slice]) -> Iterator[Records]:
        """The records of some slices, one after the other."""
        for part in slices:
            if part.records:
                with _opened(self._path(part.sender)) as descriptor:
                    yield self._read(descriptor, part.place, part.records, self.record)

    def remove(self) -> None:
        """Remove all that was sent."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_run(self, file: files.DurableFile, held: Sequence[tuple[Any, Records]]) -> None:
        """Write records by destination, after the table of where each destination's begin."""
        if not held:
            return
        destinations = np.concatenate([item[0] for item in held])
        rows = as_bytes(joined([records for _, records in held]))
        order = _stable_order(destinations)
        table = np.zeros(self.destinations + 1, OFFSET)
        table[1:] = np.cumsum(np.bincount(destinations, minlength=self.destinations))
        file.write(table.data)
        count = max(1, BLOCK_BYTES // self.record.itemsize)
        for first in range(0, len(order), count):
            file.write(rows.take(order[first : first + count], axis=0).data)

    @property
    def _table(self) -> int:
        return OFFSET.itemsize * (self.destinations + 1)

    def _path(self, sender: int) -> Path:
        return self.folder / f"from-{sender:05d}"

    def _read(self, descriptor: int, place: int, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        data = os.pread(descriptor, count * kind.itemsize, place)
        if len(data) != count * kind.itemsize:
            raise DamagedStore(f"{self.folder} is cut short; begin anew under another --name")
        self.traffic.read += len(data)
        return np.frombuffer(data, kind)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise DamagedStore(
            f"{path} is missing: {error.strerror}; begin anew under another --name"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _stable_order(destinations: NDArray[Any]) -> NDArray[np.int64]:
    """The stable order of whole numbers below 2^32; those of 16 bits are sorted by radix."""
    order = np.argsort(destinations.astype(np.uint16), kind="stable")
    if destinations.max(initial=0) >> 16:
        high = (destinations >> 16).astype(np.uint16)[order]
        order = order[np.argsort(high, kind="stable")]
    return order


def joined(parts: Sequence[Records]) -> Records:
    """Records of one type, one after the other, copied as bytes: far faster than field by field."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part.view(np.uint8) for part in parts]).view(parts[0].dtype)


def as_bytes(records: Records) -> NDArray[np.uint8]:
    """The same records [N] seen as [N, bytes]."""
    return records.view(np.uint8).reshape(len(records), -1)
