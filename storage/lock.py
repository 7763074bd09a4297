"""One writer per store: a lock that its owner's death, even by SIGKILL, sets free.

The kernel holds the lock (flock) for as long as a process has the file open. The file itself
only names the owner: for the message that a second writer gets, and, by a token that no other run
has, for workers that may have outlived the run they belong to.
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
from pathlib import Path
from typing import Any

from retomaton_dist.storage.errors import StoreLocked, WriteFailed
from retomaton_dist.storage.files import check_plain, clear_errors

LOCK_NAME = "store.lock"


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[str]:
    """Hold the store's lock for the block, or raise `StoreLocked` with the owner's name at once.

    Yields the token by which `check_held` knows this run.
    """
    path, token = folder / LOCK_NAME, uuid.uuid4().hex
    descriptor = _acquire(path, token)
    try:
        yield token
    finally:
        _release(path, descriptor)


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
        return _describe(path)
    except OSError as error:
        return f"an unknown process, if any (locks do not work here: {error.strerror})"
    else:
        return None
    finally:
        os.close(descriptor)


def check_held(folder: Path, token: str) -> None:
    """Refuse to go on for a run that no longer holds the lock: another may have taken over.

    A run that was killed leaves its name behind: as long as nobody came after it, all is well.
    """
    if _name(folder / LOCK_NAME).get("token") != token:
        raise StoreLocked(
            f"the run that this worker belongs to no longer holds {folder}: its work is not counted"
        )


def _acquire(path: Path, token: str) -> int:
    while True:
        with clear_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            _lock(path, descriptor)
            there = _still_there(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if there:
            _sign(path, descriptor, token)
            return descriptor
        os.close(descriptor)


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreLocked(
            f"{path.parent} is being written by {_describe(path)}; wait for it or stop it"
        ) from None
    except OSError as error:
        raise WriteFailed(
            f"cannot lock {path}: {error.strerror}; its file system must support flock (Lustre: "
            f"mount with -o flock; NFS: with a lock daemon), or choose another folder"
        ) from error


def _release(path: Path, descriptor: int) -> None:
    # Removed while still held: whoever opened this file in between sees that it is gone.
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    os.close(descriptor)


def _still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sign(path: Path, descriptor: int, token: str) -> None:
    name = {
        "token": token,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "command": " ".join(sys.argv),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    try:
        with clear_errors(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(name).encode(), 0)
    except BaseException:
        _release(path, descriptor)
        raise


def _describe(path: Path) -> str:
    name = _name(path)
    try:
        return f"process {name['pid']} on {name['host']} ({name['command']}) since {name['since']}"
    except KeyError:
        return "another process"


def _name(path: Path) -> dict[str, Any]:
    """What the owner wrote about itself; empty if that cannot be read."""
    try:
        check_plain(path)
        name = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return name if isinstance(name, dict) else {}
