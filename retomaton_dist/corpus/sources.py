"""The files a corpus consists of: found by path, folder or glob, and fingerprinted by content."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.errors import CorpusError
from storage.canonical import content_hash
from storage.files import digest_of

_KINDS = {".jsonl": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class Source:
    """One file. `name` is its path below the folder or glob that was asked for."""

    name: str
    path: str
    kind: str
    bytes: int
    modified_ns: int
    digest: str

    def check_unchanged(self) -> None:
        """Refuse a file that is not as it was when the corpus was fingerprinted."""
        now = _stat(Path(self.path))
        if (now.st_size, now.st_mtime_ns) != (self.bytes, self.modified_ns):
            raise CorpusError(f"{self.path} changed while it was being read; run again")


def find_sources(
    corpus: Sequence[str], progress: Callable[[int], None] = lambda _: None
) -> list[Source]:
    """Every file of the corpus once: in the order asked for, sorted inside folders and globs.

    Reads all of them once for their digests; `progress` is told the bytes.
    """
    if not corpus:
        raise CorpusError("no corpus was named; give files, folders or globs with --corpus")
    found: dict[Path, tuple[Path, str]] = {}
    for item in corpus:
        for path, name in _expand(item):
            found.setdefault(path.resolve(), (path.absolute(), name))
    sources = []
    for path, name in found.values():
        sources.append(_fingerprinted(path, name))
        progress(sources[-1].bytes)
    if not any(source.bytes for source in sources):
        raise CorpusError(f"the corpus is empty: {', '.join(corpus)} holds no byte of text")
    return sources


def fingerprint(sources: Sequence[Source]) -> str:
    """Same contents in the same order give the same fingerprint, wherever the files lie."""
    return content_hash([[source.kind, source.digest] for source in sources])


def _expand(item: str) -> Iterator[tuple[Path, str]]:
    path = Path(item).expanduser()
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
    names = [path.relative_to(folder).as_posix() for path in paths]
    shown = [pair for pair in zip(paths, names, strict=True) if not _hidden(pair[1])]
    if not shown:
        raise CorpusError(f"{folder} is a folder without files; give text with --corpus")
    yield from shown


def _matches(pattern: str) -> Iterator[tuple[Path, str]]:
    names = sorted(glob.glob(os.path.expanduser(pattern), recursive=True))  # noqa: PTH111, PTH207
    paths = [Path(name) for name in names if Path(name).is_file()]
    if not paths:
        raise CorpusError(f"{pattern}: no such file, folder or glob; check --corpus")
    root = os.path.commonpath([path.parent for path in paths])
    for path in paths:
        yield path, path.relative_to(root).as_posix()


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _fingerprinted(path: Path, name: str) -> Source:
    before = _stat(path)
    try:
        str(path).encode()
        digest = digest_of(path)
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeEncodeError:
        raise CorpusError(f"{os.fsencode(path)!r}: the name is not UTF-8; rename it") from None
    kind = _KINDS.get(path.suffix, "text")
    return Source(name, str(path), kind, digest.bytes, before.st_mtime_ns, digest.digest)


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}") from error
