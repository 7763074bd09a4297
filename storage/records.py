"""Completion records: `stages/NAME/unit-00000.json`, the grain of resume.

A unit is done when its record exists; the record is written after everything that it names is
durable, and is bound to the stage's config hash and to the attempt that it was done for.

The attempt is a fence, where units fill files that are made first. A worker may outlive its run;
what it then declares done may since have been begun anew, from empty files, by a later run. So
records of another attempt have another name (`unit-00000.attempt-1.json`), and nobody takes one for
the other.
"""

import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from retomaton_dist.storage import canonical, files
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.errors import BadInput, DamagedStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.json_rules import (
    JsonObject,
    Rule,
    check_keys,
    is_files,
    is_object,
    is_stage,
    is_text,
    is_whole,
)

FOLDER = "stages"
_NAME = re.compile(r"unit-(\d{5,18})(?:\.attempt-([1-9]\d{0,17}))?\.json")
_RECORD: dict[str, Rule] = {
    "unit": is_whole,
    "config_hash": is_text,
    "files": is_files,
    "facts": is_object,
    "attempt": is_whole,
}


@dataclass(frozen=True)
class Record:
    """What one finished unit wrote (paths relative to the store), and small facts about it."""

    unit: int
    config_hash: str
    files: dict[str, FileDigest]
    facts: Json = field(default_factory=dict)
    attempt: int = 0


def folder(store: Path, stage: str) -> Path:
    """Where the records of a stage lie; a name that would lead elsewhere is refused."""
    if not is_stage(stage):
        raise BadInput(f"{stage!r} is not the name of a stage")
    return store / FOLDER / stage


def name_of(unit: int, attempt: int = 0) -> str:
    """What the record of a unit is called."""
    return f"unit-{unit:05d}{f'.attempt-{attempt}' if attempt else ''}.json"


def write(store: Path, stage: str, record: Record) -> None:
    """Declare a unit done. Everything it names must be durable already."""
    value = asdict(record)
    if not record.attempt:
        del value["attempt"]
    canonical.write(folder(store, stage) / name_of(record.unit, record.attempt), value)


def finished(store: Path, stage: str, attempt: int = 0) -> set[int]:
    """Numbers of the units that are done in this attempt, from one listing."""
    matches = (_NAME.fullmatch(path.name) for path in _listed(store, stage))
    return {int(match[1]) for match in matches if match and int(match[2] or 0) == attempt}


def exists(store: Path, stage: str, unit: int, attempt: int = 0) -> bool:
    """Whether a unit is done in this attempt."""
    return (folder(store, stage) / name_of(unit, attempt)).exists()


def read(store: Path, stage: str, unit: int, config_hash: str, attempt: int = 0) -> Record:
    """Read one record; damage, or a record of other settings, is refused."""
    path = folder(store, stage) / name_of(unit, attempt)
    remedy = "delete it and run the stage again: the unit will be done anew"
    try:
        value = {"attempt": 0, **canonical.read(path, remedy)}
    except FileNotFoundError:
        raise DamagedStore(
            f"{path} is missing although its stage is done; delete the stage or restore the file"
        ) from None
    except OSError as error:
        raise DamagedStore(f"{path} cannot be read: {error.strerror}; {remedy}") from error
    check_keys(str(path), value, _RECORD)
    bound = value["unit"], value["config_hash"], value["attempt"]
    if bound != (unit, config_hash, attempt):
        raise DamagedStore(f"{path} belongs to another unit or other settings; {remedy}")
    listed = {name: FileDigest(**item) for name, item in value["files"].items()}
    return Record(unit, config_hash, listed, JsonObject(value["facts"]), attempt)


def remove(store: Path, stage: str, unit: int, attempt: int = 0) -> None:
    """Have a unit count as not done."""
    path = folder(store, stage) / name_of(unit, attempt)
    with files.clear_errors(path):
        path.unlink(missing_ok=True)


def discard(store: Path, stage: str) -> None:
    """Forget all units of a stage whose results now lie in files of the stage as a whole."""
    shutil.rmtree(folder(store, stage), ignore_errors=True)


def discard_others(store: Path, stage: str, attempt: int) -> None:
    """Remove what workers of earlier attempts have declared done, or still do."""
    for path in _listed(store, stage):
        match = _NAME.fullmatch(path.name)
        if match and int(match[2] or 0) != attempt:
            path.unlink(missing_ok=True)


def _listed(store: Path, stage: str) -> list[Path]:
    try:
        return list(folder(store, stage).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
