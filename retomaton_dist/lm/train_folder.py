"""The folder of a training run: its record, and files that are there whole or not at all.

`training.json` says what the model was trained on and with, and how well it does. It is written
when training begins, so that a run is known again, and once more when it is done.
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.settings import TrainSettings
from retomaton_dist.storage import files

TRAINING = "training.json"
CHECKPOINT = "checkpoint.safetensors"
PARTIAL = ".partial"
# These say where and how often, not what: a run may be resumed with others.
FREE = ("threads", "device", "checkpoint_seconds")


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """A finished training. Perplexity is per token of the held-out text, read in whole blocks."""

    folder: Path
    steps: int
    tokens: int
    seconds: float
    perplexity: float
    bits_per_byte: float


def begin(
    folder: Path, settings: TrainSettings, inputs: dict[str, str | None]
) -> TrainResult | None:
    """Claim a folder for a run, or return the result if this run is already done there.

    `inputs` are fingerprints of what it reads. BadInput if the folder holds anything else,
    other than a run that has nothing to lose because it has no checkpoint yet.
    """
    identity = _identity(settings) | inputs
    if (folder / TRAINING).exists():
        record = _read(folder / TRAINING)
        if record["status"] == "done" or (folder / CHECKPOINT).exists():
            _check_same(folder, record["run"], identity)
        if record["status"] == "done":
            return TrainResult(folder=folder, **record["result"])
    else:
        _check_free(folder)
    _write(folder, {"status": "running", "run": identity})
    return None


def finish(result: TrainResult) -> None:
    """Write down that the folder's run is done, and its result."""
    figures = {k: v for k, v in dataclasses.asdict(result).items() if k != "folder"}
    record = _read(result.folder / TRAINING)
    _write(result.folder, record | {"status": "done", "result": figures})


def forget(folder: Path) -> None:
    """Remove what a run that came to nothing has written into the folder that it claimed."""
    shutil.rmtree(folder, ignore_errors=True)


def _identity(settings: TrainSettings) -> dict[str, Any]:
    return {k: v for k, v in dataclasses.asdict(settings).items() if k not in FREE}


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is not an empty folder, nor one of a training run; choose --out")


def _check_same(folder: Path, there: dict[str, Any], now: dict[str, Any]) -> None:
    for name in sorted({*there, *now}):
        if there.get(name) != now.get(name):
            raise BadInput(
                f"{folder} holds a training run with other inputs: {name} is "
                f"{there.get(name)!r} there and {now.get(name)!r} now; choose another --out, "
                "or delete it"
            )


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
        return {"status": record["status"], "run": dict(record["run"]), **record}
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{path} is damaged; delete the folder or choose another --out") from error


def _write(folder: Path, record: dict[str, Any]) -> None:
    files.write(folder / TRAINING, (json.dumps(record, indent=2) + "\n").encode())


def save_into(folder: Path, save: Callable[[Path], object]) -> None:
    """Let a library write into an empty folder, then move each of its files into `folder`.

    A kill leaves every file as it was or as it shall be, and those that sort last moved first.
    """
    partial = folder / PARTIAL
    with files.clear_errors(folder):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        save(partial)
        for path in sorted(partial.iterdir(), reverse=True):
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            path.replace(folder / path.name)
        partial.rmdir()
        files.flush_folder(folder)
