"""A Zarr store on the local disk whose writes are durable and whose missing chunks are damage.

Zarr by itself reads a missing chunk as zeros and writes without flushing. Here a chunk that is
not there is an error, and every write goes through `storage.files` and leaves its digest.
"""

import contextlib
from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from retomaton_dist.storage import files
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import FileDigest


class ChunkStore(LocalStore):
    """`written` maps every key set through this object to the digest of its file."""

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self.written: dict[str, FileDigest] = {}

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read as `LocalStore` does, but never let a missing chunk pass for an empty one."""
        self._check_plain(key)
        found = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        return self._present(key, found)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read as `LocalStore` does, but never let a missing chunk pass for an empty one."""
        self._check_plain(key)
        found = await super().get(key, prototype, byte_range)
        return self._present(key, found)

    def _check_plain(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            files.check_plain(self.root / key)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write durably and remember the digest."""
        self._check_writable()
        self.written[key] = files.write(self.root / key, value.as_buffer_like())

    async def set(self, key: str, value: Buffer) -> None:
        """Write durably and remember the digest."""
        self.set_sync(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write durably unless the key is there."""
        if not (self.root / key).exists():
            self.set_sync(key, value)

    def _present(self, key: str, found: Buffer | None) -> Buffer | None:
        if found is None and "/c/" in f"/{key}":
            raise DamagedStore(
                f"{self.root / key} is missing: the store is damaged; "
                f"`retomaton verify {self.root.parent}` lists what else is"
            )
        return found

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ChunkStore) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)
