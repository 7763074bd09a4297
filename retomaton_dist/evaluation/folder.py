"""Where an evaluation's results go."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from retomaton_dist.errors import BadInput, ConfigMismatch
from retomaton_dist.evaluation.prepare import Prepared
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.manifest import ELSEWHERE
from retomaton_dist.storage.store import EVALUATIONS

# Settings that change no result, only how or where it comes about.
_FREE = (
    "out", "model", "device", "batch_tokens", "trust_remote_code", "served", "same_text", "verify",
    "no_verify",
)  # fmt: skip
LONGEST = 60


def folder_of(prepared: Prepared) -> Path:
    """The folder of --out, or one named by the text and the settings; a foreign one is refused."""
    out = Path(prepared.settings.out or _default(prepared)).resolve()
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file; name a folder")
    known = {"text", "calibration"}
    if out.exists() and any(out.iterdir()) and not any((out / item).exists() for item in known):
        raise BadInput(f"--out {out} has other things in it; name a new folder")
    return out


@contextlib.contextmanager
def other_settings_point_to_out() -> Iterator[None]:
    """Say of results that are there, but made with other settings, how to have both."""
    try:
        yield
    except ConfigMismatch as error:
        said = str(error).removesuffix(ELSEWHERE)
        raise ConfigMismatch(f"{said}name another folder with --out") from error


def _default(prepared: Prepared) -> Path:
    """Another text, or other settings, are another folder; the same again are the same one."""
    settings = prepared.settings
    chosen = {name: value for name, value in asdict(settings).items() if name not in _FREE}
    texts = [str(Path(item).absolute()) for item in (*settings.text, "", *settings.calibrate_on)]
    asked = {
        "settings": chosen | {"text": None, "calibrate_on": None},
        "texts": texts,
        "walk": asdict(prepared.retrieval.settings),
        "methods": [method.name for method in prepared.methods],
        "inputs": prepared.inputs(),
    }
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(settings.text[0]).name).lstrip("._-")[:LONGEST]
    label = f"{name or 'text'}-{settings.mode}-{content_hash(asked)[:8]}"
    return prepared.store.path / EVALUATIONS / label
