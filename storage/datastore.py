"""The datastore: keys, values and pointers of all entries, a Zarr v3 group chunked by rows.

Chunks are raw little-endian bytes, the last one padded to full size, so that a chunk file can be
mapped. A unit of extraction owns whole chunks, and one chunk is written by one actor.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, MemoryStore

from retomaton_dist.storage import files
from retomaton_dist.storage.errors import BadInput, DamagedStore, StageMissing
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.rows import map_rows

FOLDER = "datastore.zarr"
DTYPES = {"keys": "<f2", "values": "<i4", "pointers": "<i8"}
TARGET_CHUNK_BYTES = 16 << 20
LEAST_CHUNKS = 32
MOST_CHUNKS = 16_384
PAGE_ENTRIES = 2048

Keys = NDArray[np.float16]
Values = NDArray[np.int32]
Pointers = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Size of a datastore: N entries, keys of `dimension`, and entries per chunk."""

    entries: int
    dimension: int
    chunk_entries: int

    @property
    def chunks(self) -> int:
        """Number of chunks; the last one may be partly filled."""
        return -(-self.entries // self.chunk_entries)

    def chunk_range(self, chunk: int) -> tuple[int, int]:
        """First entry of a chunk and the one past its last."""
        first = chunk * self.chunk_entries
        return first, min(first + self.chunk_entries, self.entries)

    def entry_range(self, chunks: range) -> tuple[int, int]:
        """First entry of consecutive chunks and the one past their last."""
        return self.chunk_range(chunks[0])[0], self.chunk_range(chunks[-1])[1]

    def array(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and chunk shape of one of the three arrays."""
        if name == "keys":
            return (self.entries, self.dimension), (self.chunk_entries, self.dimension)
        return (self.entries,), (self.chunk_entries,)


def choose_chunk_entries(entries: int, dimension: int) -> int:
    """About 16 MiB of keys per chunk, but 32 chunks or more to share out, and 16,384 at most.

    Always a power of two of at least 2,048 entries, so that chunks fill whole pages.
    """
    by_bytes = TARGET_CHUNK_BYTES // (2 * dimension)
    wanted = max(min(by_bytes, entries // LEAST_CHUNKS), -(-entries // MOST_CHUNKS), PAGE_ENTRIES)
    floor = 1 << (wanted.bit_length() - 1)
    return floor if -(-entries // floor) <= MOST_CHUNKS else 2 * floor


def check_chunk_entries(chunk_entries: int) -> None:
    """Refuse chunks that do not fill whole pages: they could not be mapped side by side."""
    if chunk_entries < 1 or chunk_entries % PAGE_ENTRIES:
        raise BadInput(
            f"--chunk-entries {chunk_entries}: chunks are mapped page by page; "
            f"use a multiple of {PAGE_ENTRIES}"
        )


def create(store: Path, shape: Shape) -> dict[str, FileDigest]:
    """Write the metadata of a datastore; return the files, relative to the store.

    Chunks are not touched, so that repeating it over a datastore of the same shape changes nothing.
    """
    check_chunk_entries(shape.chunk_entries)
    memory = MemoryStore()
    zarr.create_group(memory)
    for name, dtype in DTYPES.items():
        size, chunk = shape.array(name)
        zarr.create_array(
            memory,
            name=name,
            shape=size,
            chunks=chunk,
            dtype=dtype,
            compressors=None,
            filters=None,
            fill_value=0,
        )
    return {
        f"{FOLDER}/{name}": files.write(store / FOLDER / name, document.to_bytes())
        for name, document in memory._store_dict.items()
    }


def write_chunk(
    store: Path, chunk: int, keys: Keys, values: Values, pointers: Pointers
) -> dict[str, FileDigest]:
    """Write one chunk of all three arrays durably; return the files, relative to the store."""
    group, written = zarr.open_group(store / FOLDER, mode="r"), {}
    for name, rows in (("keys", keys), ("values", values), ("pointers", pointers)):
        padded = np.zeros(_member(group, name).chunks, DTYPES[name])
        padded[: len(rows)] = rows
        path = f"{FOLDER}/{_chunk_path(name, chunk)}"
        written[path] = files.write(store / path, padded)
    return written


def _chunk_path(name: str, chunk: int) -> str:
    return f"{name}/c/{chunk}/0" if name == "keys" else f"{name}/c/{chunk}"


class ChunkStore(LocalStore):
    """A folder of Zarr arrays in which a missing chunk is damage: Zarr alone would read zeros."""

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read a file as `LocalStore` does, unless it is a chunk that is missing, or a pipe."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            files.check_plain(self.root / key)
        data = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        if data is None and "/c/" in key:
            raise DamagedStore(
                f"{self.root / key} is missing: the store is damaged; "
                f"`retomaton verify {self.root.parent}` lists what else is"
            )
        return data

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The same for readers that do not wait."""
        return await asyncio.to_thread(
            self.get_sync, key, prototype=prototype, byte_range=byte_range
        )


@dataclass(frozen=True)
class Datastore(PicklesFieldsOnly):
    """Read access to a finished datastore. Opening checks that every chunk is there and whole."""

    folder: Path
    shape: Shape
    pruned: bool = False

    @classmethod
    def open(cls, store: Path, shape: Shape, *, pruned: bool = False) -> "Datastore":
        """Open the datastore that the manifest describes; other shapes are damage.

        A `pruned` one has no keys any more.
        """
        datastore = cls(store / FOLDER, shape, pruned)
        for name in DTYPES:
            datastore._check_metadata(name)
            if not (pruned and name == "keys"):
                datastore._check_chunks(name)
        return datastore

    def array(self, name: str) -> "zarr.Array[Any]":
        """`keys`, `values` or `pointers` as a read-only Zarr array: for streaming, not rows."""
        self._check_kept(name)
        return self._array(name)

    def _array(self, name: str) -> "zarr.Array[Any]":
        return _member(zarr.open_group(ChunkStore(self.folder, read_only=True), mode="r"), name)

    @cached_property
    def keys(self) -> Keys:
        """All keys as one memory-mapped [N, d] array, whatever chunks they lie in."""
        self._check_kept("keys")
        return self._mapped("keys")

    @cached_property
    def values(self) -> Values:
        """All values as one memory-mapped array."""
        return self._mapped("values")

    @cached_property
    def pointers(self) -> Pointers:
        """All pointers as one memory-mapped array."""
        return self._mapped("pointers")

    def chunk_file(self, name: str, chunk: int) -> Path:
        """Where a chunk lies."""
        return self.folder / _chunk_path(name, chunk)

    def _mapped(self, name: str) -> NDArray[Any]:
        size, chunk = self.shape.array(name)
        paths = [self.chunk_file(name, number) for number in range(self.shape.chunks)]
        return map_rows(paths, np.dtype(DTYPES[name]), chunk, size)

    def _check_kept(self, name: str) -> None:
        if self.pruned and name == "keys":
            raise StageMissing(
                f"{self.folder.parent}: the keys were dropped by `retomaton prune`; what needs "
                f"them needs a store extracted anew"
            )

    def _check_metadata(self, name: str) -> None:
        expected = (*self.shape.array(name), np.dtype(DTYPES[name]))
        try:
            array = self._array(name)
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise DamagedStore(f"{self.folder / name}: no readable Zarr array ({error})") from error
        actual = (array.shape, array.chunks, array.dtype)
        if actual != expected:
            raise DamagedStore(
                f"{self.folder / name}: shape, chunks and type are {actual}, not {expected}; "
                f"the datastore is not the one its manifest describes"
            )

    def _check_chunks(self, name: str) -> None:
        _, chunk = self.shape.array(name)
        expected = int(np.prod(chunk)) * np.dtype(DTYPES[name]).itemsize
        remedy = f"`retomaton verify {self.folder.parent}` lists what else is damaged"
        for number in range(self.shape.chunks):
            files.check_size(self.chunk_file(name, number), expected, remedy)


def _member(group: zarr.Group, name: str) -> "zarr.Array[Any]":
    member = group[name]
    if not isinstance(member, zarr.Array):
        raise DamagedStore(f"{group.store}/{name} is not a Zarr array")
    return member
