"""Completion records: `stages/NAME/unit-00000.json`, the grain of resume.

A unit is done when its record exists; the record is written after everything that it names is
durable, and is bound to the stage's config hash.
"""

import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from storage import canonical
from storage.canonical import Json
from storage.errors import DamagedStore
from storage.files import FileDigest

FOLDER = "stages"
_NAME = re.compile(r"unit-(\d+)\.json")


@dataclass(frozen=True)
class Record:
    """What one finished unit wrote (paths relative to the store), and small facts about it."""

    unit: int
    config_hash: str
    files: dict[str, FileDigest]
    facts: Json = field(default_factory=dict)


def folder(store: Path, stage: str) -> Path:
    """Where the records of a stage lie."""
    return store / FOLDER / stage


def write(store: Path, stage: str, record: Record) -> None:
    """Declare a unit done. Everything it names must be durable already."""
    canonical.write(folder(store, stage) / f"unit-{record.unit:05d}.json", asdict(record))


def finished(store: Path, stage: str) -> set[int]:
    """Numbers of the units that are done, from one listing."""
    try:
        names = [path.name for path in folder(store, stage).iterdir()]
    except FileNotFoundError:
        return set()
    return {int(match[1]) for name in names if (match := _NAME.fullmatch(name))}


def read(store: Path, stage: str, unit: int, config_hash: str) -> Record:
    """Read one record; damage, or a record of other settings, is refused."""
    path = folder(store, stage) / f"unit-{unit:05d}.json"
    remedy = "delete it and run the stage again: the unit will be done anew"
    try:
        value = canonical.read(path, remedy)
    except FileNotFoundError:
        raise DamagedStore(
            f"{path} is missing although its stage is done; delete the stage or restore the file"
        ) from None
    if value["config_hash"] != config_hash or value["unit"] != unit:
        raise DamagedStore(f"{path} belongs to another unit or other settings; {remedy}")
    listed = {name: FileDigest(**item) for name, item in value.pop("files").items()}
    return Record(files=listed, **value)


def remove(store: Path, stage: str, unit: int) -> None:
    """Have a unit count as not done."""
    (folder(store, stage) / f"unit-{unit:05d}.json").unlink(missing_ok=True)


def discard(store: Path, stage: str) -> None:
    """Forget all units of a stage whose results now lie in files of the stage as a whole."""
    shutil.rmtree(folder(store, stage), ignore_errors=True)
