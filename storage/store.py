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
from retomaton_dist.storage.errors import BadInput, DamagedStore, NotAStore
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
        return self.manifest.require(name, self.path)

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

    def corpus(self) -> Corpus:
        """The tokenised corpus."""
        facts = self.stage("tokenize").facts
        return Corpus(self.path, facts["prefix"], facts["vocabulary"])

    def states(self, name: str) -> States:
        """A finished clustering."""
        stage = self.stage(f"cluster/{name}")
        folder = states.folder_of(self.path, name)
        return States(folder, stage.config["algorithm"], stage.facts["states"], self.datastore())

    def clusterings(self) -> list[str]:
        """Names of the clusterings that are done."""
        stages = self.manifest.stages.items()
        return [
            name.removeprefix("cluster/")
            for name, stage in stages
            if name.startswith("cluster/") and stage.done
        ]

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
        stage = known = self.manifest.stages.get(name)
        if units > MOST_UNITS:
            raise BadInput(
                f"stage {name} has {units:,} units, {MOST_UNITS:,} are the most; use larger ones"
            )
        if stage is None:
            stage = Stage("running", config, units, made_with=dict(made_with))
            self._commit(name, stage)
        manifest.check_config(self.path, name, stage, config)
        self.recheck(name)
        stage = self.manifest.stages[name]
        if stage.done and not stage.units:
            # Left behind if `finish_merged` was killed before it could forget them itself.
            records.discard(self.path, name)
        if stage.done:
            return set()
        done = records.finished(self.path, name, stage.attempt)
        if merges and known and not done:
            self._commit(name, replace(stage, attempt=stage.attempt + 1))
            records.discard_others(self.path, name, stage.attempt + 1)
        return set(range(units)) - done

    def record(self, name: str, unit: int) -> Record:
        """The completion record of a unit of a stage."""
        return Store(self.path, self.manifest).record(name, unit)

    def finish(self, name: str, stage_files: Mapping[str, FileDigest], facts: Json) -> Stage:
        """Declare a stage done. Its units' records stay and count towards its digest."""
        stage = self.manifest.stages[name]
        everything = self._with_units(name, stage_files)
        done = self._commit_done(name, stage, dict(stage_files), everything, facts)
        records.discard_others(self.path, name, stage.attempt)
        return done

    def finish_merged(self, name: str, stage_files: Mapping[str, FileDigest], facts: Json) -> Stage:
        """Declare done a stage whose units were merged into `stage_files`: forget its records."""
        stage = replace(self.manifest.stages[name], units=0, attempt=0)
        done = self._commit_done(name, stage, dict(stage_files), dict(stage_files), facts)
        records.discard(self.path, name)
        return done

    def abandon(self, name: str) -> None:
        """Undo a stage that cannot be finished: forget its units and that it was begun."""
        records.discard(self.path, name)
        if name in self.manifest.stages:
            self._write(self.manifest.without_stage(name))

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
        if not unreadable and digest_of_files(self._with_units(name, stage.files)) == stage.digest:
            return
        for unit in unreadable or range(stage.units):
            records.remove(self.path, name, unit, stage.attempt)
        self.forget(name, None)

    def _is_readable(self, name: str, unit: int) -> bool:
        try:
            self.record(name, unit)
        except DamagedStore:
            return False
        return True

    def _with_units(
        self, name: str, stage_files: Mapping[str, FileDigest]
    ) -> dict[str, FileDigest]:
        """The files of a stage as a whole, and those of all its units."""
        listed = dict(stage_files)
        for unit in range(self.manifest.stages[name].units):
            listed.update(self.record(name, unit).files)
        return listed

    def _commit_done(
        self,
        name: str,
        stage: Stage,
        stage_files: dict[str, FileDigest],
        everything: dict[str, FileDigest],
        facts: Json,
    ) -> Stage:
        done = replace(
            stage,
            status="done",
            digest=digest_of_files(everything),
            bytes=sum(item.bytes for item in everything.values()),
            files=stage_files,
            facts=facts,
        )
        self._commit(name, done)
        return done

    def _commit(self, name: str, stage: Stage) -> None:
        self._write(self.manifest.with_stage(name, stage))

    def _write(self, changed: Manifest) -> None:
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
    if manifest.MANIFEST_NAME not in names and not all(map(_is_debris, names)):
        raise NotAStore(
            f"{folder} is a folder with other things in it, not a store; choose another name"
        )


def _is_debris(name: str) -> bool:
    return name == lock.LOCK_NAME or name.endswith(files.TEMPORARY)


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
        with os.scandir(folder) as found:
            listed = list(found)
    except FileNotFoundError:
        # A worker that outlived its run may tidy up after itself.
        return
    if not top and any(entry.name == manifest.MANIFEST_NAME for entry in listed):
        return
    for entry in listed:
        yield entry
        if entry.is_dir(follow_symlinks=False) and not (top and entry.name == EVALUATIONS):
            yield from _below(Path(entry.path), top=False)
