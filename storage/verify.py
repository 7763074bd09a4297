"""Finding damage: every digest, shape, range and pointer of a store."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from retomaton_dist.storage import corpus, files, lock, manifest, records
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.datastore import Datastore
from retomaton_dist.storage.errors import StoreError
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.manifest import Stage
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
class _Owned:
    path: str
    expected: FileDigest
    stage: str
    unit: int | None


def verify(store: Store, progress: Callable[[int], None] = lambda _: None) -> Checked:
    """Check all that the manifest and the records name; `progress` is told bytes as they are read.

    Ranges and pointers are looked at only where all bytes are sound.
    """
    owned: list[_Owned] = []
    findings: list[Finding] = []
    for name, stage in store.manifest.stages.items():
        found = list(_inventory(store, name, stage))
        owned += [item for item in found if isinstance(item, _Owned) and _kept(store, item.path)]
        findings += [item for item in found if isinstance(item, Finding)]
    findings += _damaged_files(store.path, owned, progress)
    if not findings:
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


def _inventory(store: Store, name: str, stage: Stage) -> Iterator[_Owned | Finding]:
    listed = [_Owned(path, expected, name, None) for path, expected in stage.files.items()]
    sound = True
    for unit in sorted(store.units(name)):
        try:
            record = store.record(name, unit)
        except StoreError as error:
            sound = False
            yield Finding(_record(store, name, unit), str(error), name, unit)
        else:
            listed += [_Owned(path, digest, name, unit) for path, digest in record.files.items()]
    yield from listed
    if stage.done and sound and _digest(listed) != stage.digest:
        problem = "its records do not add up to its digest in the manifest"
        yield Finding(f"{records.FOLDER}/{name}", problem, name)


def _kept(store: Store, path: str) -> bool:
    return STAGE not in store.manifest.stages or not path.startswith(KEYS)


def _digest(listed: list[_Owned]) -> str:
    return digest_of_files({item.path: item.expected for item in listed})


def _damaged_files(
    root: Path, owned: list[_Owned], progress: Callable[[int], None]
) -> Iterator[Finding]:
    with ThreadPoolExecutor(THREADS) as pool:
        problems = pool.map(lambda item: files.problem_of(root / item.path, item.expected), owned)
        for item, problem in zip(owned, problems, strict=True):
            progress(item.expected.bytes)
            if problem:
                yield Finding(item.path, problem, item.stage, item.unit)


def _wrong_contents(store: Store) -> Iterator[Finding]:
    stages = store.manifest.stages
    if not ("extract" in stages and stages["extract"].done):
        return
    try:
        yield from check_entries(store.corpus(), store.datastore())
    except StoreError as error:
        yield Finding("datastore.zarr", str(error), "extract")


def check_entries(words: Corpus, datastore: Datastore) -> Iterator[Finding]:
    """Check every value and pointer: in range, same document, -1 exactly at ends.

    The findings name files; which unit wrote a file is for its record to say.
    """
    if words.entries != datastore.shape.entries:
        problem = (
            f"documents of {words.entries:,} entries, datastore of {datastore.shape.entries:,}"
        )
        yield Finding(corpus.DOCUMENTS, problem, "tokenize")
        return
    values, pointers = (Windows(datastore, name) for name in ("values", "pointers"))
    for chunk in range(datastore.shape.chunks):
        for first, last in _blocks(*datastore.shape.chunk_range(chunk)):
            yield from _wrong_values(words, values, first, last)
            yield from _wrong_pointers(words, pointers, first, last)


def _blocks(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Parts of a chunk: its size is the user's."""
    starts = range(first, last, BLOCK_ENTRIES)
    return ((start, min(start + BLOCK_ENTRIES, last)) for start in starts)


def _wrong_values(words: Corpus, array: Windows, first: int, last: int) -> Iterator[Finding]:
    values = array[first:last]
    inside = (values >= 0) & (values < words.vocabulary)
    sound = inside & (values == words.values(first, last))
    if not sound.all():
        entry = first + int(np.argmin(sound))
        problem = f"entry {entry} has value {values[entry - first]}, which is not its token"
        yield _finding(words, array, entry, problem)


def _wrong_pointers(words: Corpus, array: Windows, first: int, last: int) -> Iterator[Finding]:
    pointers = array[first:last]
    entries = np.arange(first, last)
    document = np.searchsorted(words.first_entries, entries, side="right") - 1
    end = entries == words.first_entries[document] + words.lengths[document] - 1
    target = np.searchsorted(words.first_entries, pointers, side="right") - 1
    inside = (pointers >= 0) & (pointers < words.entries) & (target == document)
    sound = np.where(end, pointers == -1, inside)
    if not sound.all():
        entry = first + int(np.argmin(sound))
        problem = f"entry {entry} points to {pointers[entry - first]}, out of its document"
        yield _finding(words, array, entry, problem)


def _finding(words: Corpus, array: Windows, entry: int, problem: str) -> Finding:
    chunk = entry // array.datastore.shape.chunk_entries
    path = array.datastore.chunk_file(array.name, chunk).relative_to(words.store).as_posix()
    return Finding(path, problem, "extract")


def _leftovers(store: Store, owned: set[str]) -> list[str]:
    listed = {
        _record(store, name, unit) for name in store.manifest.stages for unit in store.units(name)
    }
    known = owned | listed | {manifest.MANIFEST_NAME, lock.LOCK_NAME}
    names = {path.relative_to(store.path).as_posix() for path in _files_below(store.path)}
    # Evaluations are stores of their own, each with its manifest.
    return sorted(name for name in names - known if not name.startswith(f"{EVALUATIONS}/"))


def _record(store: Store, stage: str, unit: int) -> str:
    name = records.name_of(unit, store.manifest.stages[stage].attempt)
    return f"{records.FOLDER}/{stage}/{name}"


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
