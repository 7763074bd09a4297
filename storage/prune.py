"""Dropping what a store no longer needs: keys that automata have codes of, and whatever has a name.

A name is checked before it becomes a path. The manifest forgets a part before its files go: a
killed run leaves files that nobody counts on, and the same command deletes what is left of them.
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retomaton_dist.storage import automaton, codec, datastore, lock, ngrams, states, suffixes
from retomaton_dist.storage.errors import BadInput
from retomaton_dist.storage.manifest import MANIFEST_NAME, Manifest
from retomaton_dist.storage.shaped import is_name
from retomaton_dist.storage.store import EVALUATIONS, StoreWriter

STAGE = "prune"
KEYS = f"{datastore.FOLDER}/keys/c/"
CALIBRATIONS, CALIBRATE = "calibrations", "calibrate/"
CODEC = "codec/"
# What a store has several of, by name: the stage that makes it, and the folder where it lies.
# What is made from others comes before them.
PARTS = {
    "calibration": (CALIBRATE, CALIBRATIONS),
    "automaton": ("compile/", automaton.FOLDER),
    "states": ("cluster/", states.FOLDER),
    "index": ("index/", "index"),
    "ngrams": ("ngram/", ngrams.FOLDER),
    "suffixes": ("suffix/", suffixes.FOLDER),
}


def prune_keys(writer: StoreWriter) -> int:
    """Delete the keys for good; return how many bytes that set free."""
    automata = _without_keys(writer.manifest)
    if not automata:
        raise BadInput(
            f"{writer.path}: no automaton with pq codes is finished, so the keys are still needed; "
            f"run `retomaton compile {writer.path} --codec pq` first"
        )
    chunks = writer.path / KEYS
    freed = _size(chunks)
    writer.begin(STAGE, {"keys": True}, 0, {})
    if not writer.manifest.stages[STAGE].done:
        writer.finish(STAGE, {}, {"bytes": freed, "automata": automata})
    shutil.rmtree(chunks, ignore_errors=True)
    return freed


def prune_part(writer: StoreWriter, kind: str, name: str) -> int:
    """Delete a part, so that its name is free; return how many bytes that set free.

    Refused as long as another part was made from it. A codec goes with the last automaton that
    has it, unless the keys are gone: it could not be made again.
    """
    prefix, folder = PARTS[kind]
    known = [
        stage.removeprefix(prefix) for stage in writer.manifest.stages if stage.startswith(prefix)
    ]
    place = writer.path / folder / name
    if not is_name(name) or (name not in known and not place.is_dir()):
        raise BadInput(
            f"{writer.path} has no {kind} {name!r}; there is {', '.join(known) or 'none'}"
        )
    users = _users(writer.manifest, f"{prefix}{name}")
    if users:
        raise BadInput(
            f"{writer.path}: {kind} {name!r} is needed by {', '.join(users)}; prune that first"
        )
    freed = 0
    if kind == "automaton" and STAGE not in writer.manifest.stages:
        # First, so that a killed run can be repeated: as long as the automaton is there, it is.
        for stage in list(writer.manifest.stages):
            if stage.startswith(CODEC) and _users(writer.manifest, stage) == [f"{prefix}{name}"]:
                own = stage.removeprefix(CODEC)
                freed += _drop(writer, stage, codec.folder_of(writer.path, own))
    return freed + _drop(writer, f"{prefix}{name}", place)


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


def _without_keys(manifest: Manifest) -> list[str]:
    return [
        name.removeprefix("compile/")
        for name, stage in manifest.stages.items()
        if name.startswith("compile/") and stage.done and stage.config["codec"] == "pq"
    ]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
