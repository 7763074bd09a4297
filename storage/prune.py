"""Dropping what a store no longer needs: keys that automata have codes of, a calibration."""

import shutil
from pathlib import Path

from retomaton_dist.storage import datastore
from retomaton_dist.storage.errors import BadInput
from retomaton_dist.storage.manifest import Manifest
from retomaton_dist.storage.shaped import is_name
from retomaton_dist.storage.store import StoreWriter

STAGE = "prune"
KEYS = f"{datastore.FOLDER}/keys/c/"
CALIBRATIONS, CALIBRATE = "calibrations", "calibrate/"


def prune_keys(writer: StoreWriter) -> int:
    """Delete the keys for good; return how many bytes that set free.

    The manifest says so first: a killed run leaves keys that nobody counts on, and the same
    command deletes what is left of them.
    """
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


def prune_calibration(writer: StoreWriter, name: str) -> int:
    """Delete a calibration, so that its name is free; return how many bytes that set free.

    The manifest forgets it first: what a killed run leaves, the same command deletes.
    """
    folder, known = writer.path / CALIBRATIONS / name, _calibrations(writer.manifest)
    if not is_name(name) or (name not in known and not folder.is_dir()):
        raise BadInput(
            f"{writer.path} has no calibration {name!r}; there is {', '.join(known) or 'none'}"
        )
    freed = _size(folder)
    writer.abandon(f"{CALIBRATE}{name}")
    shutil.rmtree(folder, ignore_errors=True)
    return freed


def _calibrations(manifest: Manifest) -> list[str]:
    return [name.removeprefix(CALIBRATE) for name in manifest.stages if name.startswith(CALIBRATE)]


def _without_keys(manifest: Manifest) -> list[str]:
    return [
        name.removeprefix("compile/")
        for name, stage in manifest.stages.items()
        if name.startswith("compile/") and stage.done and stage.config["codec"] == "pq"
    ]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
