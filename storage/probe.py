"""A file put beside a store to see who else sees it: the same path, contents, and locks.

Locks must hold between nodes, or two writers could destroy a store: some network file systems
have none, and some keep them on each node by itself without a word.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.storage.errors import BadInput
from retomaton_dist.storage.files import clear_errors

# As other temporary files: what a kill leaves in a store is removed by the next writer.
NAME = ".retomaton-probe-{}.tmp"


@dataclass(frozen=True)
class FolderSeen:
    """What one process sees of a folder: bytes free, and what is wrong with it."""

    free: int = 0
    problem: str = ""


@dataclass(frozen=True)
class FolderProbe:
    """A file that its maker holds the lock of; its contents are its name."""

    path: Path

    def seen(self) -> FolderSeen:
        """Look at the folder and the file from wherever this is called."""
        folder = self.path.parent
        if not folder.is_dir():
            return FolderSeen(problem=f"{folder} is not there")
        try:
            free = shutil.disk_usage(folder).free
            # A network file system may go on believing for seconds that there is no such file;
            # opening the folder has it ask again.
            os.listdir(folder)  # noqa: PTH208 - for its effect
            if not self.path.exists() or self.path.read_text() != self.path.name:
                return FolderSeen(free, f"{folder} is another folder there: it lacks {self.path}")
            return FolderSeen(free, self._lock_problem() or self._write_problem())
        except OSError as error:
            return FolderSeen(problem=f"{folder}: {error.strerror}")

    def _lock_problem(self) -> str:
        with self.path.open("rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return ""
            except OSError as error:
                return f"{self.path.parent} has no file locks (flock: {error.strerror})"
        return f"{self.path.parent}: a lock held by another node is not seen; two could write"

    def _write_problem(self) -> str:
        try:
            own = self.path.with_name(NAME.format(secrets.token_hex(8)))
            own.write_bytes(b"x")
            own.unlink()
        except OSError as error:
            return f"{self.path.parent} cannot be written: {error.strerror}"
        return ""


@contextlib.contextmanager
def probing(store: Path) -> Iterator[FolderProbe]:
    """Put a probe where a store is or would be, for the block."""
    place = store.absolute()
    with clear_errors(place):
        folder = place if place.is_dir() else place.parent
    if not folder.is_dir():
        raise BadInput(f"{store}: there is neither such a store nor a folder for it")
    path = folder / NAME.format(secrets.token_hex(8))
    with clear_errors(path):
        file = path.open("xb", buffering=0)
    with file:
        try:
            with clear_errors(path):
                file.write(path.name.encode())
                os.fsync(file.fileno())
            # Where there are no locks at all, whoever looks says so.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield FolderProbe(path)
        finally:
            path.unlink(missing_ok=True)
