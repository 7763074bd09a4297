"""One writer per store: a lock that its owner's death, even by SIGKILL, sets free.

The kernel holds the lock (flock) for as long as a process has the file open. The file itself
only names the owner for the message that a second writer gets.
"""

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from storage.errors import StoreLocked
from storage.files import clear_errors

LOCK_NAME = "store.lock"


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the store's lock for the block, or raise `StoreLocked` with the owner's name at once."""
    path = folder / LOCK_NAME
    descriptor = _acquire(path)
    try:
        yield
    finally:
        _release(path, descriptor)


def owner(folder: Path) -> str | None:
    """Name the process that is writing the store now, or None."""
    path = folder / LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _describe(path)
    else:
        return None
    finally:
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        with clear_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StoreLocked(
                f"{path.parent} is being written by {_describe(path)}; wait for it or stop it"
            ) from None
        if _still_there(path, descriptor):
            _sign(path, descriptor)
            return descriptor
        os.close(descriptor)


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


def _sign(path: Path, descriptor: int) -> None:
    name = {
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
    try:
        name = json.loads(path.read_bytes())
        return f"process {name['pid']} on {name['host']} ({name['command']}) since {name['since']}"
    except (OSError, ValueError, KeyError):
        return "another process"
