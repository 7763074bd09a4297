"""A cache of verified files: which were found to have their digests, and have not changed since.

A file is read whole, for its digest, before anything is made of it: once per process, and once per
machine if several processes read it, as workers do. It is the same as long as its inode, size and
times of change are; nobody can set a ctime back. What has changed just now is not remembered: a
second change might bear the same time. Clocks of hosts may differ: a file whose times have stayed
the same for a while, by this machine's own count, is remembered too.
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
from dataclasses import astuple, dataclass, replace
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


@dataclass(frozen=True)
class FileVerified:
    """A file as it was first seen, at `since` by the machine's count, and its digest once read."""

    stamp: Stamp
    since: int
    digest: str = ""

    @property
    def settled(self) -> bool:
        """Whether a change from now on would bear another time than the last one."""
        by_clock = time.time_ns() - max(self.stamp[-2:])
        return max(by_clock, time.monotonic_ns() - self.since) > SETTLED_NS


_CACHE: dict[str, FileVerified] = {}


def problem_of(path: Path, expected: FileDigest) -> str | None:
    """What is wrong with a file, or None; one that was verified and has not changed stays so."""
    name, stamp = str(path.absolute()), _stamp(path)
    if stamp is None:
        return files.problem_of(path, expected)
    known = _CACHE.get(name)
    if known is None or known.stamp != stamp:
        known = _CACHE[name] = FileVerified(stamp, time.monotonic_ns())
    if known.digest == expected.digest:
        return None
    settled, problem = known.settled, files.problem_of(path, expected)
    if problem is None and settled and stamp == _stamp(path):
        _CACHE[name] = replace(known, digest=expected.digest)
    return problem


def problems_of(group: str, listed: Mapping[Path, FileDigest]) -> dict[Path, str]:
    """What is wrong with files of one group, several read at once.

    `group` is a name for all of them, such as the path of their folder. What processes of this
    machine and user have found out about the group counts, and one at a time looks.
    """
    if all(_is_verified(path, expected) for path, expected in listed.items()):
        return {}
    folder = cache_folder()
    shared = folder and folder / f"{hashlib.sha256(os.fsencode(group)).hexdigest()[:32]}.json"
    with _taking_turns(shared) if shared else contextlib.nullcontext():
        if shared:
            _CACHE.update(_read(shared))
        with ThreadPoolExecutor(THREADS) as pool:
            problems = list(pool.map(problem_of, listed, listed.values()))
        if shared:
            names = [str(path.absolute()) for path in listed]
            _write(shared, {name: _CACHE[name] for name in names if name in _CACHE})
    return {path: problem for path, problem in zip(listed, problems, strict=True) if problem}


def _is_verified(path: Path, expected: FileDigest) -> bool:
    known = _CACHE.get(str(path.absolute()))
    return known is not None and (known.stamp, known.digest) == (_stamp(path), expected.digest)


def _stamp(path: Path) -> Stamp | None:
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def cache_folder() -> Path | None:
    """Where this machine's cache lies; None if it cannot be had, or is not ours alone."""
    folder = Path(tempfile.gettempdir()) / f"retomaton-verified-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
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


def _read(path: Path) -> dict[str, FileVerified]:
    try:
        listed = json.loads(path.read_bytes()).items()
        return {
            name: FileVerified(tuple(map(int, stamp)), int(since), str(digest))
            for name, (stamp, since, digest) in listed
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(path: Path, known: Mapping[str, FileVerified]) -> None:
    # It only saves time: where it cannot be written, nothing is lost.
    with contextlib.suppress(OSError):
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({name: astuple(entry) for name, entry in known.items()}))
        temporary.replace(path)
        by_age = sorted(path.parent.glob("*.json"), key=lambda item: item.stat().st_mtime)
        for oldest in by_age[:-KEPT]:
            oldest.unlink(missing_ok=True)
            oldest.with_suffix(".lock").unlink(missing_ok=True)
