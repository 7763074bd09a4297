"""Deleting what a store no longer needs: its keys, or one of several parts, by name.

A name is checked before it becomes a path. The manifest forgets a part before its files are
deleted: after a kill nothing counts on the files that are left, and the same command deletes them.
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retomaton_dist.storage import codec, datastore, lock
from retomaton_dist.storage.errors import BadInput
from retomaton_dist.storage.json_rules import is_name
from retomaton_dist.storage.manifest import MANIFEST_NAME, Manifest
from retomaton_dist.storage.store import EVALUATIONS, StoreWriter

STAGE = "prune"
KEYS = f"{datastore.FOLDER}/keys/c/"


@dataclass(frozen=True)
class NamedPart:
    """What a store may have several of: what messages call one, its stage, and its folder."""

    what: str
    stage: str
    folder: str


def prune_keys(writer: StoreWriter, codecs: Sequence[str]) -> int:
    """Delete the keys for good; return how many bytes that set free.

    `codecs` are those whose automata need no keys; one such automaton must be finished.
    """
    automata = [
        name
        for name, stage in writer.manifest.named("compile").items()
        if stage.done and stage.config["codec"] in codecs
    ]
    if not automata:
        raise BadInput(
            f"{writer.path}: no automaton with {' or '.join(codecs)} codes is finished, so the "
            f"keys are still needed; run `retomaton compile {writer.path} --codec {codecs[0]}` "
            f"first"
        )
    chunks = writer.path / KEYS
    freed = _size(chunks)
    writer.begin(STAGE, {"keys": True}, 0, {})
    if not writer.manifest.stages[STAGE].done:
        writer.finish(STAGE, {}, {"bytes": freed, "automata": automata})
    shutil.rmtree(chunks, ignore_errors=True)
    return freed


def prune_part(writer: StoreWriter, part: NamedPart, name: str) -> int:
    """Delete a part, so that its name is free; return how many bytes that set free.

    Refused as long as another part was made from it. A codec goes with the last automaton that
    has it, unless the keys are gone: it could not be made again.
    """
    folder, known = writer.path / part.folder / name, writer.manifest.named(part.stage)
    if not is_name(name) or (name not in known and not folder.is_dir()):
        raise BadInput(
            f"{writer.path} has no {part.what} {name!r}; there is {', '.join(known) or 'none'}"
        )
    stage, freed = f"{part.stage}/{name}", 0
    if users := _users(writer.manifest, stage):
        raise BadInput(
            f"{writer.path}: {part.what} {name!r} is needed by {', '.join(users)}; prune that first"
        )
    if STAGE not in writer.manifest.stages:
        # First, so that a killed run can be repeated: as long as the automaton is there, it is.
        for own in list(writer.manifest.named("codec")):
            if _users(writer.manifest, f"codec/{own}") == [stage]:
                freed += _drop(writer, f"codec/{own}", writer.path / codec.FOLDER / own)
    return freed + _drop(writer, stage, folder)


def prune_evaluation(store: Path, name: str) -> int:
    """Delete an evaluation of a store; return how many bytes that set free.

    One that is still running is refused: its texts are stores with locks of their own.
    """
    place = store / EVALUATIONS
    known = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    if not is_name(name) or name not in known:
        raise BadInput(f"{store} has no evaluation {name!r}; there is {', '.join(known) or 'none'}")
    freed = _size(place / name)
    with contextlib.ExitStack() as held:
        for text in (place / name).glob(f"*/{MANIFEST_NAME}"):
            held.enter_context(lock.exclusive(text.parent))
        shutil.rmtree(place / name, ignore_errors=True)
    # Locks that were held are gone with their folders; what was left is an empty folder.
    shutil.rmtree(place / name, ignore_errors=True)
    return freed


def _drop(writer: StoreWriter, stage: str, folder: Path) -> int:
    freed = _size(folder)
    writer.abandon(stage)
    shutil.rmtree(folder, ignore_errors=True)
    return freed


def _users(manifest: Manifest, name: str) -> list[str]:
    """The stages that were made from this one: its digest is among their settings."""
    stage = manifest.stages.get(name)
    if stage is None or stage.digest is None:
        return []
    return [user for user, item in manifest.stages.items() if stage.digest in _values(item.config)]


def _values(config: Any) -> Iterator[Any]:
    if isinstance(config, Mapping):
        for item in config.values():
            yield from _values(item)
    else:
        yield config


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
