"""The one place that writes: every file of a store comes into being here.

A file is written under a temporary name, flushed to the disk, and renamed into place; then its
folder is flushed. So a reader sees the whole file or none, whenever the writer is killed.

Workers write behind a fence (`fenced`): one that was cut off, and comes back when its run has gone
on without it, must not write any more.
"""

import contextlib
import errno
import hashlib
import io
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.errors import DamagedStore, WriteFailed

TEMPORARY = ".tmp"
READ_BLOCK = 1 << 20

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EFBIG: "the file size limit is reached; raise it (ulimit -f) and run again",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EACCES: "permission denied; choose another folder or change its permissions",
    errno.EPERM: "not permitted; choose another folder or change its permissions",
}


def _no_fence() -> None:
    """Let everything be written."""


_fence: ContextVar[Callable[[], None]] = ContextVar("fence", default=_no_fence)


@dataclass(frozen=True)
class FileDigest:
    """What a finished file must look like: its SHA-256 and its size."""

    digest: str
    bytes: int


class DurableFile(io.RawIOBase):
    """A file under construction that knows the digest of what was written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._hash = hashlib.sha256()
        self._bytes = 0

    def writable(self) -> bool:
        """Whether it can be written: always."""
        return True

    def write(self, data: Any) -> int:
        """Write all of `data`; a short write is continued, never reported as success."""
        view = memoryview(data).cast("B")
        rest = view
        while len(rest):
            rest = rest[os.write(self._descriptor, rest) :]
        self._hash.update(view)
        self._bytes += len(view)
        return len(view)

    def flush_to_disk(self) -> None:
        """Return only when what was written survives a power cut."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor once, even if closing it reports an error."""
        if not self.closed:
            super().close()
            os.close(self._descriptor)

    @property
    def result(self) -> FileDigest:
        """Digest and size of what was written so far."""
        return FileDigest(self._hash.hexdigest(), self._bytes)


@contextlib.contextmanager
def fenced(check: Callable[[], None]) -> Iterator[None]:
    """Have `check` called before everything that this thread writes in the block; it may raise."""
    before = _fence.set(check)
    try:
        yield
    finally:
        _fence.reset(before)


def check_fence() -> None:
    """Call the check of the innermost `fenced` block, if there is one."""
    current_fence()()


def current_fence() -> Callable[[], None]:
    """The check of the innermost `fenced` block, to be taken to other threads and processes."""
    return _fence.get()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[DurableFile]:
    """Yield a file that becomes `path` when the block ends well, and vanishes when it does not."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{TEMPORARY}")
    check_fence()
    with clear_errors(path):
        make_folder(path.parent)
        try:
            with DurableFile(temporary) as file:
                yield file
                file.flush_to_disk()
            check_fence()
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        flush_folder(path.parent)


def write(path: Path, data: Any) -> FileDigest:
    """Make `path` hold exactly `data`, durably."""
    with replacing(path) as file:
        file.write(data)
    return file.result


def write_at(descriptor: int, place: int, numbers: NDArray[Any]) -> None:
    """Write all of an array's bytes at a place of an open file; not durable by itself."""
    check_fence()
    data = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data
    while len(data):
        written = os.pwrite(descriptor, data, place)
        data, place = data[written:], place + written


def check_plain(path: Path) -> None:
    """Raise OSError if a pipe, a socket or a device lies there: reading it might never end."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


def digest_of(path: Path) -> FileDigest:
    """Read `path` once, in blocks, and return its digest and size."""
    check_plain(path)
    result = hashlib.sha256()
    size = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(READ_BLOCK):
            result.update(block)
            size += len(block)
    return FileDigest(result.hexdigest(), size)


def problem_of(path: Path, expected: FileDigest) -> str | None:
    """Read a file whole and say what is wrong with it; None if nothing is."""
    try:
        actual = digest_of(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if actual.bytes != expected.bytes:
        return f"has {actual.bytes:,} bytes instead of {expected.bytes:,}"
    return None if actual.digest == expected.digest else "its contents were altered"


def check_size(path: Path, expected: int, remedy: str) -> None:
    """Refuse a file that is missing or has another size than it was written with."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DamagedStore(
            f"{path} is missing or cannot be read ({error.strerror}); {remedy}"
        ) from error
    if size != expected:
        raise DamagedStore(f"{path} has {size:,} bytes instead of {expected:,}; {remedy}")


def make_folder(folder: Path) -> None:
    """Create `folder` and what it lies in, durably; what exists stays as it is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        flush_folder(folder.parent)


def flush_folder(folder: Path) -> None:
    """Make renames and deletions in `folder` durable."""
    with opened(folder, os.O_RDONLY):
        pass


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """The descriptor of an open file or folder, which is flushed to the disk after the block."""
    descriptor = os.open(path, flags, 0o644)
    try:
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn a refused write into one line that says where, why and what to do."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        raise WriteFailed(f"cannot write {path}: {advice}") from error
