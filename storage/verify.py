"""Finding damage: every digest, shape, range and pointer of a store."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage import corpus, files, lock, manifest, records
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.errors import StoreError
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.prune import KEYS, STAGE
from retomaton_dist.storage.store import EVALUATIONS, Store, digest_of_files, writing
from retomaton_dist.storage.windows import Windows

THREADS = 4
# Entries whose values and pointers are looked at together.
BLOCK_ENTRIES = 1 << 18


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: which file, what, and the stage and unit that would write it anew.

    `unit` is None for a file of the stage as a whole.
    """

    path: str
    problem: str
    stage: str
    unit: int | None = None


@dataclass(frozen=True)
class Checked:
    """The outcome: what was read and what is wrong. `leftovers` are files no stage knows."""

    files: int
    bytes: int
    findings: list[Finding]
    leftovers: list[str]


@dataclass(frozen=True)
class _OwnedFile:
    path: str
    expected: FileDigest
    stage: str
    unit: int | None


def verify(store: Store, progress: Callable[[int], None] = lambda _: None) -> Checked:
    """Check all that the manifest and the records name; `progress` is told bytes as they are read.

    Ranges and pointers are looked at only where all bytes are sound.
    """
    owned: list[_OwnedFile] = []
    findings: list[Finding] = []
    for name in store.manifest.stages:
        listed, problems = _inventory(store, name)
        owned += listed
        findings += problems
    if STAGE in store.manifest.stages:
        owned = [item for item in owned if not item.path.startswith(KEYS)]
    findings += _damaged_files(store.path, owned, progress)
    if not findings and store.is_done("extract"):
        units = {item.path: item.unit for item in owned}
        findings += [replace(item, unit=units.get(item.path)) for item in _wrong_contents(store)]
    total = sum(item.expected.bytes for item in owned)
    return Checked(len(owned), total, findings, _leftovers(store, {item.path for item in owned}))


def total_bytes(store: Store) -> int:
    """How many bytes `verify` will read of the stages that are done; more if others are running."""
    return sum(stage.bytes for stage in store.manifest.stages.values())


def repair(path: str | Path, checked: Checked) -> None:
    """Have what was found damaged done anew by the next run of its stage."""
    damaged = {(finding.stage, finding.unit) for finding in checked.findings}
    with writing(path) as writer:
        known = [item for item in damaged if item[0] in writer.manifest.stages]
        for stage in {stage for stage, _ in known}:
            writer.recheck(stage)
        for stage, unit in known:
            writer.forget(stage, unit)


def _inventory(store: Store, name: str) -> tuple[list[_OwnedFile], list[Finding]]:
    """The files of a stage and of its units, and what is wrong with the units' records."""
    stage = store.manifest.stages[name]
    listed = [_OwnedFile(path, expected, name, None) for path, expected in stage.files.items()]
    findings = []
    for unit in sorted(store.units(name)):
        try:
            record = store.record(name, unit)
        except StoreError as error:
            findings.append(Finding(_record_path(store, name, unit), str(error), name, unit))
        else:
            listed += [_OwnedFile(path, item, name, unit) for path, item in record.files.items()]
    digest = digest_of_files({item.path: item.expected for item in listed})
    if stage.done and not findings and digest != stage.digest:
        problem = "its records do not add up to its digest in the manifest"
        findings.append(Finding(f"{records.FOLDER}/{name}", problem, name))
    return listed, findings


def _damaged_files(
    root: Path, owned: list[_OwnedFile], progress: Callable[[int], None]
) -> Iterator[Finding]:
    with ThreadPoolExecutor(THREADS) as pool:
        problems = pool.map(lambda item: files.problem_of(root / item.path, item.expected), owned)
        for item, problem in zip(owned, problems, strict=True):
            progress(item.expected.bytes)
            if problem:
                yield Finding(item.path, problem, item.stage, item.unit)


def _wrong_contents(store: Store) -> Iterator[Finding]:
    """Check every value and pointer: in range, same document, -1 exactly at ends.

    The findings name files; which unit wrote a file is for its record to say.
    """
    try:
        tokenised, datastore = store.corpus(), store.datastore()
        if tokenised.entries != datastore.shape.entries:
            problem = f"documents of {tokenised.entries:,} entries, datastore of "
            problem += f"{datastore.shape.entries:,}"
            yield Finding(corpus.DOCUMENTS, problem, "tokenize")
            return
        values, pointers = (Windows(datastore, name) for name in ("values", "pointers"))
        for chunk in range(datastore.shape.chunks):
            # In blocks: the size of a chunk is the user's.
            begin, end = datastore.shape.chunk_range(chunk)
            for first in range(begin, end, BLOCK_ENTRIES):
                last = min(first + BLOCK_ENTRIES, end)
                yield from _wrong_values(tokenised, values, first, last)
                yield from _wrong_pointers(tokenised, pointers, first, last)
    except StoreError as error:
        yield Finding("datastore.zarr", str(error), "extract")


def _wrong_values(tokenised: Corpus, array: Windows, first: int, last: int) -> Iterator[Finding]:
    values = array[first:last]
    inside = (values >= 0) & (values < tokenised.vocabulary)
    sound = inside & (values == tokenised.values(first, last))
    yield from _first_wrong(array, first, sound, "has value {}, which is not its token")


def _wrong_pointers(tokenised: Corpus, array: Windows, first: int, last: int) -> Iterator[Finding]:
    pointers, firsts = array[first:last], tokenised.first_entries
    entries = np.arange(first, last)
    document = np.searchsorted(firsts, entries, side="right") - 1
    end = entries == firsts[document] + tokenised.lengths[document] - 1
    target = np.searchsorted(firsts, pointers, side="right") - 1
    inside = (pointers >= 0) & (pointers < tokenised.entries) & (target == document)
    sound = np.where(end, pointers == -1, inside)
    yield from _first_wrong(array, first, sound, "points to {}, out of its document")


def _first_wrong(
    array: Windows, first: int, sound: NDArray[np.bool_], problem: str
) -> Iterator[Finding]:
    if not sound.all():
        entry, datastore = first + int(np.argmin(sound)), array.datastore
        path = datastore.chunk_file(array.name, entry // datastore.shape.chunk_entries)
        inside = path.relative_to(datastore.folder.parent).as_posix()
        number = array[entry : entry + 1][0]
        yield Finding(inside, f"entry {entry} {problem.format(number)}", "extract")


def _leftovers(store: Store, owned: set[str]) -> list[str]:
    listed = {
        _record_path(store, name, unit)
        for name in store.manifest.stages
        for unit in store.units(name)
    }
    known = owned | listed | {manifest.MANIFEST_NAME, lock.LOCK_NAME}
    paths = (path for path in store.path.rglob("*") if path.is_file())
    names = {path.relative_to(store.path).as_posix() for path in paths}
    # Evaluations are stores of their own, each with its manifest.
    return sorted(name for name in names - known if not name.startswith(f"{EVALUATIONS}/"))


def _record_path(store: Store, stage: str, unit: int) -> str:
    name = records.name_of(unit, store.manifest.stages[stage].attempt)
    return f"{records.FOLDER}/{stage}/{name}"
