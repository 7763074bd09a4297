"""One writer per store: a lock that its owner's death, even by SIGKILL, sets free.

The kernel holds the lock (flock) for as long as a process has the file open. The file itself
only names the owner: for the message that a second writer gets, and, by a token, for workers that
may have outlived the run or the stage they belong to. No other run has the token, and a run
changes it when the units of a stage are done.
"""

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retomaton_dist.storage.errors import StoreLocked, WriteFailed
from retomaton_dist.storage.files import check_plain, clear_errors

LOCK_NAME = "store.lock"


@dataclass
class HeldLock:
    """The lock as its owner has it. `token` is what `check_held` knows the owner's workers by."""

    path: Path
    descriptor: int
    token: str = field(init=False)

    def renew_token(self) -> None:
        """Shut out all workers that know the present token."""
        self.token = uuid.uuid4().hex
        owner = {
            "token": self.token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "command": " ".join(sys.argv),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        with clear_errors(self.path):
            length = os.pwrite(self.descriptor, json.dumps(owner).encode(), 0)
            os.ftruncate(self.descriptor, length)
            # Workers on other hosts read it through a network file system.
            os.fsync(self.descriptor)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[HeldLock]:
    """Hold the store's lock for the block, or raise `StoreLocked` with the owner's name at once."""
    path = folder / LOCK_NAME
    held = HeldLock(path, _acquire(path))
    try:
        held.renew_token()
        yield held
    finally:
        # Removed while still held: whoever opened this file in between sees that it is gone.
        path.unlink(missing_ok=True)
        os.close(held.descriptor)


def owner(folder: Path) -> str | None:
    """Name the process that is writing the store now, or None."""
    path = folder / LOCK_NAME
    try:
        # Not to be waited for, should it be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner_shown(path)
    except OSError as error:
        return f"an unknown process, if any (locks do not work here: {error.strerror})"
    else:
        return None
    finally:
        os.close(descriptor)


def check_held(folder: Path, token: str) -> None:
    """Refuse a worker whose run no longer holds the lock, or has finished the worker's stage.

    A run that was killed leaves its token behind: its workers may go on until another run begins.
    """
    if _read_owner(folder / LOCK_NAME).get("token") != token:
        raise StoreLocked(
            f"the run that this worker belongs to no longer holds {folder}, or is done with its "
            f"stage: nothing more is written"
        )


def _acquire(path: Path) -> int:
    while True:
        with clear_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            _lock(path, descriptor)
            # Its owner may have removed it after it was opened here.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(descriptor)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreLocked(
            f"{path.parent} is being written by {_owner_shown(path)}; wait for it or stop it"
        ) from None
    except OSError as error:
        raise WriteFailed(
            f"cannot lock {path}: {error.strerror}; its file system must support flock (Lustre: "
            f"mount with -o flock; NFS: with a lock daemon), or choose another folder"
        ) from error


def _owner_shown(path: Path) -> str:
    try:
        return "process {pid} on {host} ({command}) since {since}".format_map(_read_owner(path))
    except KeyError:
        return "another process"


def _read_owner(path: Path) -> dict[str, Any]:
    """What the owner wrote about itself; empty if that cannot be read."""
    try:
        check_plain(path)
        owner = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}
