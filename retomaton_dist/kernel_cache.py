"""Where the machine code of kernels is kept: in folders named by the sources that it is made of.

numba watches a kernel's own file alone. But its machine code also holds the kernels that it calls,
and constants and tuples from files without kernels. So every file with kernels has a folder, named
by a digest over that file and whatever of ours it imports: other sources, another folder.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numba

PREFIX = "retomaton-kernels-"
# Folders that no process uses: so many are kept, for whoever changes between branches. About 25
# files have kernels.
KEPT = 100
PACKAGE = "retomaton_dist"
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w.]+))",
    re.MULTILINE,
)
_WORD = re.compile(rb"\w+")

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class SourceFile:
    """A file of our package as it was read."""

    path: Path
    stamp: Stamp
    text: bytes


@dataclass(frozen=True)
class Sources:
    """The files that a module's kernels are made of: their digest, and how each was found."""

    digest: str
    stamps: Mapping[Path, Stamp]

    def unchanged(self) -> bool:
        """Whether the files on disk are still those of the digest."""
        try:
            return all(_stamp(path) == stamp for path, stamp in self.stamps.items())
        except OSError:
            return False


def kernel_folder(module: str) -> Path | None:
    """The folder for a kernel of this module that is made now; None if it must not be kept.

    After a change of the files, what this process has imported is partly old: nothing that it
    compiles from then on may stand for either the old or the new sources.
    """
    sources, folder = _own_cache(module)
    return folder if sources and sources.unchanged() else None


@functools.cache
def _own_cache(module: str) -> tuple[Sources | None, Path | None]:
    sources = sources_of(module, _own_files())
    return sources, claim_folder(PREFIX + sources.digest) if sources else None


@functools.cache
def _own_files() -> dict[str, SourceFile]:
    return read_files(Path(__file__).parent.parent)


def read_files(root: Path) -> dict[str, SourceFile]:
    """Our package below a folder, by module; empty in a zipped installation, which has no files."""
    found = {}
    try:
        for path in source_files(root):
            *folders, name = path.relative_to(root).with_suffix("").parts
            module = ".".join(folders if name == "__init__" else [*folders, name])
            # The stamp comes first: a change in between is then noticed.
            found[module] = SourceFile(path, _stamp(path), path.read_bytes())
    except OSError:
        return {}
    return found


def sources_of(module: str, files: Mapping[str, SourceFile]) -> Sources | None:
    """What the kernels of a module are made of; None if that is none of these files."""
    if module not in files:
        return None
    chosen = sorted(_with_imports(module, files))
    total = hashlib.sha256(numba.__version__.encode())
    for name in chosen:
        total.update(name.encode() + hashlib.sha256(files[name].text).digest())
    return Sources(total.hexdigest()[:16], {files[name].path: files[name].stamp for name in chosen})


def claim_folder(name: str) -> Path | None:
    """A folder of this name that nobody removes while this process lives, where one can be written.

    The first of: `NUMBA_CACHE_DIR`, beside the package, the user's cache folder.
    """
    for root in _roots():
        with contextlib.suppress(OSError):
            folder = root / name
            new = not folder.is_dir()
            root.mkdir(parents=True, exist_ok=True)
            _hold(_lock_of(folder))
            folder.mkdir(exist_ok=True)
            if new:
                forget_unused(root)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    return None


def forget_unused(root: Path) -> None:
    """Remove all folders but those that a process holds and the last few that were."""
    locks = sorted(root.glob(f"{PREFIX}*.lock"), key=_last_use, reverse=True)
    for lock in locks[KEPT:]:
        with contextlib.suppress(OSError):
            _remove(lock)


def _remove(lock: Path) -> None:
    descriptor = os.open(lock, os.O_RDWR)
    try:
        # Raises if a process, here or on another machine, works with the folder.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(lock, descriptor):
            folder = lock.with_suffix("")
            if folder.exists():
                shutil.rmtree(folder)
            lock.unlink()
    finally:
        os.close(descriptor)


def _hold(lock: Path) -> None:
    """Share the lock until this process ends: the descriptor stays open on purpose."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except OSError:
            # A file system without locks: no one can remove the folder there either.
            os.close(descriptor)
            return
        if _is_at(lock, descriptor):
            os.utime(descriptor)
            return
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one of this name, and not one that was removed."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _last_use(lock: Path) -> float:
    try:
        return lock.stat().st_mtime
    except OSError:
        return 0.0


def _roots() -> Iterator[Path]:
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR)
    yield Path(__file__).parent / "__pycache__"
    # Without a home (an unknown user, as in some containers) there is no such folder.
    with contextlib.suppress(RuntimeError):
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retomaton_dist"


def source_files(root: Path) -> list[Path]:
    """Every file of our package below `root`; in a clone, two of its folders are links."""
    walked = os.walk(root / PACKAGE, followlinks=True)
    return [
        Path(folder, name) for folder, _, names in walked for name in names if name[-3:] == ".py"
    ]


def _with_imports(module: str, files: Mapping[str, SourceFile]) -> set[str]:
    """The module, those of ours that it imports, those that these import, and so on."""
    reached = {module}
    ahead = [module]
    while ahead:
        found = (set(_imported(files[ahead.pop()].text)) & files.keys()) - reached
        reached |= found
        ahead += found
    return reached


def _imported(text: bytes) -> Iterator[str]:
    """What import statements may mean; a name of a package may be a module of it."""
    for origin, names, module in _IMPORT.findall(text):
        yield (origin or module).decode()
        yield from (f"{origin.decode()}.{name.decode()}" for name in _WORD.findall(names))


def _stamp(path: Path) -> Stamp:
    """What changes whenever a file does: no one can set a ctime back."""
    found = path.stat()
    return found.st_ino, found.st_ctime_ns, found.st_size
