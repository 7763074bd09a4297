"""The files a corpus consists of: found by path, folder or glob, and fingerprinted by content."""

import glob
import hashlib
import io
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retomaton_dist.errors import CorpusError
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.files import check_plain

# A file is compared with its fingerprint in blocks of this size, each by a digest of its own.
BLOCK = 4 << 20
# Files of a list that a message names.
NAMED = 5
_KINDS = {".jsonl": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class Source:
    """One file. `name` is its path below the folder or glob that was asked for.

    `digest` is the SHA-256 of its contents, `blocks` are the digests of its blocks in order.
    """

    name: str
    path: str
    kind: str
    bytes: int
    digest: str
    blocks: tuple[str, ...] = field(repr=False)

    def open(self) -> io.BufferedReader:
        """Open the file for reading; only bytes that were fingerprinted are ever returned."""
        return io.BufferedReader(_FingerprintedFile(self), BLOCK)


class _FingerprintedFile(io.RawIOBase):
    """A file that compares every block with the source's fingerprint before handing it out.

    So it does not matter when the file changes, or on which host another one has its path.
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0
        self._block_number = -1
        self._block = b""
        try:
            self._descriptor = os.open(source.path, os.O_RDONLY)
        except OSError as error:
            raise _unreadable(source.path, error) from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.bytes}
        self._position = start[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from one block, at most."""
        if self._position >= self._source.bytes:
            return 0
        number, start = divmod(self._position, BLOCK)
        if number != self._block_number:
            self._block = self._read(number)
            self._block_number = number
        data = self._block[start : start + len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._descriptor)

    def _read(self, number: int) -> bytes:
        place = number * BLOCK
        size = min(BLOCK, self._source.bytes - place)
        data = b""
        try:
            while len(data) < size and (
                part := os.pread(self._descriptor, size - len(data), place + len(data))
            ):
                data += part
        except OSError as error:
            raise _unreadable(self._source.path, error) from error
        if _block_digest(data) != self._source.blocks[number]:
            raise CorpusError(
                f"{self._source.path} on {socket.gethostname()} is not the file that this run "
                f"began with (bytes {place:,} to {place + size:,} differ): it changed since, or "
                f"that host has another file under this path; make it the same everywhere and run "
                f"the command again"
            )
        return data


def find_sources(
    corpus: Sequence[str], progress: Callable[[int], None] = lambda _: None
) -> list[Source]:
    """Every file of the corpus once: in the order asked for, sorted inside folders and globs.

    Reads all of them once for their digests; `progress` is told the bytes.
    """
    if not corpus:
        raise CorpusError("no corpus was named; give files, folders or globs with --corpus")
    sources = []
    for path, name in find_files(corpus):
        sources.append(_fingerprinted(path, name))
        progress(sources[-1].bytes)
    if not any(source.bytes for source in sources):
        raise CorpusError(f"the corpus is empty: {', '.join(corpus)} holds no byte of text")
    return sources


def find_files(corpus: Sequence[str]) -> list[tuple[Path, str]]:
    """Paths and names of the files, each once; what names none is refused."""
    found: dict[Path, tuple[Path, str]] = {}
    for item in corpus:
        for path, name in _expand(item):
            found.setdefault(path.resolve(), (path.absolute(), name))
    return list(found.values())


def fingerprint(sources: Sequence[Source]) -> str:
    """Same contents in the same order give the same fingerprint, wherever the files lie."""
    return content_hash([[source.kind, source.digest] for source in sources])


def changes(before: Sequence[Mapping[str, Any]], now: Sequence[Source]) -> str:
    """What became of the files of a corpus, by name: which came, went, or have other contents."""
    old = {row["name"]: row["digest"] for row in before}
    new = {source.name: source.digest for source in now}
    found = {
        "new": [name for name in new if name not in old],
        "gone": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and new[name] != old[name]],
    }
    listed = [_counted(names, what) for what, names in found.items() if names]
    return "; ".join(listed) or "the same files in another order, or read as another kind"


def _counted(names: Sequence[str], what: str) -> str:
    """A few names, and how many more there are."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more} {'is' if len(names) == 1 else 'are'} {what}"


def _expand(item: str) -> Iterator[tuple[Path, str]]:
    path = Path(os.path.expanduser(item))  # noqa: PTH111 - Path's raises for an unknown ~user
    try:
        if path.is_dir():
            yield from _below(path)
        elif path.is_file():
            yield path, path.name
        elif path.exists():
            raise CorpusError(f"{path} is a pipe or a device, not a file; write its text to one")
        else:
            yield from _matches(item)
    except OSError as error:
        raise CorpusError(f"cannot read {error.filename or path}: {error.strerror}") from error


def _below(folder: Path) -> Iterator[tuple[Path, str]]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [(path, path.relative_to(folder)) for path in paths]
    shown = [(path, name) for path, name in found if not any(p[0] == "." for p in name.parts)]
    if not shown:
        raise CorpusError(f"{folder} is a folder without files; give text with --corpus")
    yield from ((path, name.as_posix()) for path, name in shown)


def _matches(pattern: str) -> Iterator[tuple[Path, str]]:
    names = sorted(glob.glob(os.path.expanduser(pattern), recursive=True))  # noqa: PTH111, PTH207
    paths = [Path(name) for name in names if Path(name).is_file()]
    if not paths:
        raise CorpusError(
            f"{pattern}: no such file, folder or glob; --corpus takes paths, not text"
        )
    root = os.path.commonpath([path.parent for path in paths])
    for path in paths:
        yield path, path.relative_to(root).as_posix()


def _fingerprinted(path: Path, name: str) -> Source:
    """Read a file once for the digests of the whole and of its blocks."""
    whole, blocks, size = hashlib.sha256(), [], 0
    try:
        str(path).encode()
        check_plain(path)
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                whole.update(block)
                blocks.append(_block_digest(block))
                size += len(block)
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeEncodeError:
        raise CorpusError(f"{os.fsencode(path)!r}: the name is not UTF-8; rename it") from None
    kind = _KINDS.get(path.suffix, "text")
    return Source(name, str(path), kind, size, whole.hexdigest(), tuple(blocks))


def _block_digest(block: bytes) -> str:
    return hashlib.blake2b(block, digest_size=16).hexdigest()


def _unreadable(path: str | Path, error: OSError) -> CorpusError:
    return CorpusError(f"cannot read {path}: {error.strerror}")
