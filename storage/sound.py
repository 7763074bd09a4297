"""Which files were found sound, remembered as long as they do not change.

A file is read whole, for its digest, before anything is made of it: once per process, and once per
machine if several processes read it, as workers do. It is the same as long as its inode, size and
times of change are; nobody can set a ctime back. What has changed just now is not remembered: a
second change might bear the same time.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from retomaton_dist.storage import files
from retomaton_dist.storage.files import FileDigest

THREADS = 8
# File systems may tell changes apart no better than by the second.
SETTLED_NS = 2_000_000_000
# Processes of a machine wait for each other no longer: then each reads for itself.
WAIT_SECONDS = 600.0
PAUSE_SECONDS = 0.05
# Groups of files that a machine remembers.
KEPT = 512

Stamp = tuple[int, ...]
Memory = dict[str, list[object]]
_SOUND: dict[str, list[object]] = {}


def problem_of(path: Path, expected: FileDigest) -> str | None:
    """What is wrong with a file, or None; one that was sound and has not changed stays so."""
    name, stamp = str(path.absolute()), _stamp(path)
    if stamp is not None and _SOUND.get(name) == [*stamp, expected.digest]:
        return None
    problem = files.problem_of(path, expected)
    if problem is None and stamp is not None and _settled(stamp) and stamp == _stamp(path):
        _SOUND[name] = [*stamp, expected.digest]
    return problem


def problems_of(group: str, listed: Mapping[Path, FileDigest]) -> dict[Path, str]:
    """What is wrong with files of one group, several read at once; what this machine knows counts.

    `group` is a name for all of them, such as the path of their folder.
    """
    if all(_known(path, expected) for path, expected in listed.items()):
        return {}
    with _machine_memory(group) as memory:
        _SOUND.update(memory)
        with ThreadPoolExecutor(THREADS) as pool:
            found = dict(zip(listed, pool.map(problem_of, listed, listed.values()), strict=True))
        names = [str(path.absolute()) for path in listed]
        memory.clear()
        memory.update({name: _SOUND[name] for name in names if name in _SOUND})
    return {path: problem for path, problem in found.items() if problem is not None}


def _known(path: Path, expected: FileDigest) -> bool:
    stamp = _stamp(path)
    return stamp is not None and _SOUND.get(str(path.absolute())) == [*stamp, expected.digest]


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _settled(stamp: Stamp) -> bool:
    return max(stamp[-2:]) < time.time_ns() - SETTLED_NS


@contextlib.contextmanager
def _machine_memory(group: str) -> Iterator[Memory]:
    """What processes of this machine and user found sound of a group; one at a time looks.

    It only saves time: where there is no such folder, or it is not ours alone, nothing is lost.
    """
    folder = memory_folder()
    if folder is None:
        yield {}
        return
    path = folder / f"{hashlib.sha256(group.encode()).hexdigest()[:32]}.json"
    with _taking_turns(path):
        memory = _read(path)
        yield memory
        with contextlib.suppress(OSError):
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(memory))
            temporary.replace(path)
            _forget_oldest(folder)


def memory_folder() -> Path | None:
    """Where this machine's memory lies; None if it cannot be had, or is not ours alone."""
    folder = Path(tempfile.gettempdir()) / f"retomaton-sound-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return folder if private and not folder.is_symlink() else None


@contextlib.contextmanager
def _taking_turns(path: Path) -> Iterator[None]:
    """Have others of this machine wait for what one finds out, but not for ever."""
    deadline = time.monotonic() + WAIT_SECONDS
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            lock = opened.enter_context(path.with_suffix(".lock").open("w"))
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(PAUSE_SECONDS)
        yield


def _read(path: Path) -> Memory:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _forget_oldest(folder: Path) -> None:
    known = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in known[KEPT:]:
        path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)
