"""A store: the folder that holds everything made from one corpus with one model."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from retomaton_dist.storage import canonical, files, lock, manifest, records, states
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.datastore import Datastore, Shape
from retomaton_dist.storage.errors import BadInput, DamagedStore, NotAStore, StageMissing
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.lock import HeldLock
from retomaton_dist.storage.manifest import MOST_UNITS, Manifest, Stage
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.states import States

# Where evaluations lie, which have locks of their own.
EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class Store:
    """A store's folder and its manifest as it was when opened. Reading needs no lock."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path) -> "Store":
        """Open an existing store; missing, foreign, newer or damaged ones are refused."""
        folder = Path(path)
        return cls(folder, manifest.read(folder))

    def __repr__(self) -> str:
        stages = self.manifest.stages
        entries = stages["tokenize"].facts.get("entries") if "tokenize" in stages else None
        listed = [name if stage.done else f"{name} (unfinished)" for name, stage in stages.items()]
        size = f"{entries:,} entries; " if entries else ""
        return f"<Store {self.path}: {size}{', '.join(listed) or 'empty'}>"

    def stage(self, name: str) -> Stage:
        """Return a finished stage, or raise `StageMissing` with the command that finishes it."""
        stage = self.manifest.stages.get(name)
        if stage is None or not stage.done:
            state = "is not finished" if stage else "has not been run"
            command = f"retomaton {name.split('/')[0]} {self.path} ..."
            raise StageMissing(f"{self.path}: stage {name} {state}; run `{command}` first")
        return stage

    def units(self, name: str) -> set[int]:
        """Units of a stage that are done, or that must be there because the stage is done."""
        stage = self.manifest.stages[name]
        if stage.done:
            return set(range(stage.units))
        return records.finished(self.path, name, stage.attempt)

    def record(self, name: str, unit: int) -> Record:
        """The completion record of a unit of a stage."""
        stage = self.manifest.stages[name]
        return records.read(self.path, name, unit, stage.config_hash, stage.attempt)

    def files_of(self, name: str) -> dict[str, FileDigest]:
        """All files of a stage, those of its units included."""
        stage = self.manifest.stages[name]
        listed = dict(stage.files)
        for unit in range(stage.units):
            listed |= self.record(name, unit).files
        return listed

    def corpus(self) -> Corpus:
        """The tokenised corpus."""
        facts = self.stage("tokenize").facts
        return Corpus(self.path, facts["prefix"], facts["vocabulary"])

    def states(self, name: str) -> States:
        """A finished clustering."""
        stage = self.stage(f"cluster/{name}")
        folder = states.folder_of(self.path, name)
        return States(folder, stage.config["algorithm"], stage.facts["states"], self.datastore())

    def finished(self, kind: str) -> list[str]:
        """Names of the finished stages `kind/NAME`, the newest last."""
        return [name for name, stage in self.manifest.named(kind).items() if stage.done]

    def is_done(self, name: str) -> bool:
        """Whether a stage is finished."""
        stage = self.manifest.stages.get(name)
        return stage is not None and stage.done

    def shape(self) -> Shape:
        """Size of the datastore, without a look at its files."""
        facts = self.stage("extract").facts
        return Shape(facts["entries"], facts["dimension"], facts["chunk_entries"])

    def datastore(self) -> Datastore:
        """The datastore; opening checks its shape and that every chunk is there and whole."""
        return Datastore.open(self.path, self.shape(), pruned="prune" in self.manifest.stages)


class StoreWriter:
    """The one process that changes a store; made by `writing`, which holds the lock."""

    def __init__(self, path: Path, held: HeldLock) -> None:
        self.path, self.lock = path, held
        self.manifest = manifest.read(path)

    @property
    def store(self) -> Store:
        """The store as it is now."""
        return Store(self.path, self.manifest)

    def begin(
        self,
        name: str,
        config: Json,
        units: int,
        made_with: Mapping[str, str],
        *,
        merges: bool = False,
    ) -> set[int]:
        """Enter a stage and return the units still to be done; none if the stage is done.

        The config must be the one the stage was begun with, if it ever was. With `merges`, units
        fill files that are made before the first of them: begun from nothing once more, the stage
        is another attempt, and what workers of a killed run still declare done does not count.
        A finished stage whose records were altered is begun again.
        """
        if units > MOST_UNITS:
            raise BadInput(
                f"stage {name} has {units:,} units, {MOST_UNITS:,} are the most; use larger ones"
            )
        first_time = name not in self.manifest.stages
        if first_time:
            self._commit(name, Stage("running", config, units, made_with=dict(made_with)))
        manifest.check_config(self.path, name, self.manifest.stages[name], config)
        self.recheck(name)
        stage = self.manifest.stages[name]
        if stage.done and not stage.units:
            # Left behind if `finish` was killed before it could forget them itself.
            records.discard(self.path, name)
        if stage.done:
            return set()
        done = records.finished(self.path, name, stage.attempt)
        if merges and not first_time and not done:
            self._commit(name, replace(stage, attempt=stage.attempt + 1))
            records.discard_others(self.path, name, stage.attempt + 1)
        return set(range(units)) - done

    def finish(
        self, name: str, files: Mapping[str, FileDigest], facts: Json, *, merges: bool = False
    ) -> Stage:
        """Declare a stage done that wrote `files` as a whole, besides what its units wrote.

        The units' records stay and count towards the stage's digest; with `merges`, `files` hold
        what the units wrote, and their records are forgotten.
        """
        stage = replace(self.manifest.stages[name], files=dict(files))
        if merges:
            stage = replace(stage, units=0, attempt=0)
        everything = Store(self.path, Manifest({name: stage})).files_of(name)
        done = replace(
            stage,
            status="done",
            digest=digest_of_files(everything),
            bytes=sum(item.bytes for item in everything.values()),
            facts=facts,
        )
        self._commit(name, done)
        if merges:
            records.discard(self.path, name)
        else:
            records.discard_others(self.path, name, stage.attempt)
        return done

    def abandon(self, name: str) -> None:
        """Undo a stage that cannot be finished: forget its units and that it was begun."""
        records.discard(self.path, name)
        if name in self.manifest.stages:
            self._commit(name, None)

    def forget(self, name: str, unit: int | None) -> None:
        """Have a unit, or what the stage wrote as a whole, done anew by the stage's next run.

        The stage stays bound to its config. If its units were merged, all of them are done anew.
        """
        stage = self.manifest.stages[name]
        if unit is not None:
            records.remove(self.path, name, unit, stage.attempt)
        if stage.done and not stage.units:
            records.discard(self.path, name)
        self._commit(name, replace(stage, status="running", digest=None))

    def recheck(self, name: str) -> None:
        """Have units of a finished stage done anew if its records do not add up to its digest.

        Those without a readable record, if there are any; else all, since any may be altered.
        """
        stage = self.manifest.stages[name]
        if not stage.done or not stage.units:
            return
        unreadable = [unit for unit in range(stage.units) if not self._is_readable(name, unit)]
        if not unreadable and digest_of_files(self.store.files_of(name)) == stage.digest:
            return
        for unit in unreadable or range(stage.units):
            records.remove(self.path, name, unit, stage.attempt)
        self.forget(name, None)

    def _is_readable(self, name: str, unit: int) -> bool:
        try:
            self.store.record(name, unit)
        except DamagedStore:
            return False
        return True

    def _commit(self, name: str, stage: Stage | None) -> None:
        """Replace the manifest by one with this stage, or without it."""
        stages = {**self.manifest.stages, name: stage}
        changed = Manifest({key: item for key, item in stages.items() if item is not None})
        manifest.write(self.path, changed)
        self.manifest = changed


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[StoreWriter]:
    """Hold a store's lock and yield its writer; a folder that is missing or empty becomes a store.

    What killed writers left under temporary names is removed. A store in which no stage was
    begun does not outlive its writer: bad input leaves nothing behind.
    """
    folder = Path(path)
    with files.clear_errors(folder):
        _check_free(folder)
        files.make_folder(folder)
    try:
        with lock.exclusive(folder) as held:
            if not (folder / manifest.MANIFEST_NAME).exists():
                manifest.write(folder, Manifest())
            _remove_temporaries(folder)
            writer = StoreWriter(folder, held)
            try:
                yield writer
            finally:
                if not writer.manifest.stages:
                    _remove_manifest(folder)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def digest_of_files(listed: Mapping[str, FileDigest]) -> str:
    """One digest for a set of files: over their sorted paths and contents."""
    return canonical.content_hash(sorted((path, item.digest) for path, item in listed.items()))


def _check_free(folder: Path) -> None:
    if "\0" in str(folder):
        raise NotAStore(f"{str(folder)!r}: no path holds a NUL byte; choose another name")
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise NotAStore(
            f"{os.fsencode(folder)!r}: the path is not UTF-8; choose another name"
        ) from None
    # One look, because another writer may be making or removing this store right now.
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise NotAStore(f"{folder} is a file, not a store; choose another name") from None
    others = {name for name in names - {lock.LOCK_NAME} if not name.endswith(files.TEMPORARY)}
    if manifest.MANIFEST_NAME not in names and others:
        raise NotAStore(
            f"{folder} is a folder with other things in it, not a store; choose another name"
        )


def _remove_manifest(folder: Path) -> None:
    for path in sorted(folder.rglob("*/"), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()
    # The lock is its owner's to remove. Beside other files the manifest stays, or the next
    # writer would take the folder for a foreign one.
    if {path.name for path in folder.iterdir()} <= {manifest.MANIFEST_NAME, lock.LOCK_NAME}:
        (folder / manifest.MANIFEST_NAME).unlink(missing_ok=True)


def _remove_temporaries(folder: Path) -> None:
    """Remove what killed writers left; refuse links, which lead out of what the lock protects."""
    for entry in _below(folder):
        if entry.is_symlink():
            raise DamagedStore(
                f"{entry.path} is a link, and a store holds none: what is written there would lie "
                f"elsewhere; put the folder or file itself in its place"
            )
        temporary = entry.name.startswith(".") and entry.name.endswith(files.TEMPORARY)
        if temporary and not entry.is_dir(follow_symlinks=False):
            Path(entry.path).unlink(missing_ok=True)


def _below(folder: Path, *, top: bool = True) -> "Iterator[os.DirEntry[str]]":
    """All that lies in a store, but for what has writers of its own: evaluations, other stores."""
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except FileNotFoundError:
        # A worker that outlived its run may tidy up after itself.
        return
    if not top and any(entry.name == manifest.MANIFEST_NAME for entry in listed):
        return
    for entry in listed:
        yield entry
        if entry.is_dir(follow_symlinks=False) and not (top and entry.name == EVALUATIONS):
            yield from _below(Path(entry.path), top=False)
