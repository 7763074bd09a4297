"""The manifest, `store.json`: what a store was made from and how far each stage has come."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from storage import canonical
from storage.canonical import Json
from storage.errors import ConfigMismatch, NotAStore, StageMissing
from storage.files import FileDigest

FORMAT = "retomaton-store"
VERSION = 1
MANIFEST_NAME = "store.json"

_ABSENT = "(absent)"
_REMEDY = "restore store.json from a copy, or build the store anew in another folder"


@dataclass(frozen=True)
class Stage:
    """A step of the build: its exact settings, its status, and digests of what it wrote.

    `files` are the files of the stage as a whole; those of its units are named by the completion
    records, `units` of them. `digest` covers both and is set when the stage is done. `facts` are
    results worth showing; `made_with` names the versions that ran it.
    """

    status: Literal["running", "done"]
    config: Json
    units: int
    digest: str | None = None
    bytes: int = 0
    files: dict[str, FileDigest] = field(default_factory=dict)
    facts: Json = field(default_factory=dict)
    made_with: dict[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the stage is finished."""
        return self.status == "done"

    @property
    def config_hash(self) -> str:
        """What completion records are bound to."""
        return canonical.content_hash(self.config)


@dataclass(frozen=True)
class Manifest:
    """The contents of `store.json`; stages in the order in which they were begun."""

    stages: dict[str, Stage] = field(default_factory=dict)

    def with_stage(self, name: str, stage: Stage) -> "Manifest":
        """Return a manifest in which `name` stands as given."""
        return replace(self, stages={**self.stages, name: stage})

    def without_stage(self, name: str) -> "Manifest":
        """Return a manifest in which `name` was never begun."""
        return replace(self, stages={key: s for key, s in self.stages.items() if key != name})

    def require(self, name: str, store: Path) -> Stage:
        """Return a finished stage, or say which command finishes it."""
        stage = self.stages.get(name)
        if stage is None or not stage.done:
            state = "is not finished" if stage else "has not been run"
            command = name.split("/")[0]
            raise StageMissing(
                f"{store}: stage {name} {state}; run `retomaton {command} {store} ...` first"
            )
        return stage


def write(store: Path, manifest: Manifest) -> None:
    """Replace the manifest durably."""
    stages = [{"name": name, **asdict(stage)} for name, stage in manifest.stages.items()]
    value = {"format": FORMAT, "version": VERSION, "stages": stages}
    canonical.write(store / MANIFEST_NAME, value)


def read(store: Path) -> Manifest:
    """Read and check the manifest; a foreign, newer or damaged one is refused."""
    path = store / MANIFEST_NAME
    try:
        if not store.is_dir():
            raise NotAStore(f"{store}: no such store; `retomaton extract {store} --help` makes one")
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotAStore(f"{store} is not a store: it has no {MANIFEST_NAME}") from None
    except OSError as error:
        raise NotAStore(f"cannot read {path}: {error.strerror}") from error
    value = canonical.parse(data, path, _REMEDY)
    _check_format(path, value)
    return Manifest({item.pop("name"): _stage(item) for item in value["stages"]})


def check_config(store: Path, name: str, stage: Stage, config: Json) -> None:
    """Refuse a config that is not the one the stage was begun with, naming each difference."""
    differences = list(_differences(stage.config, config))
    if differences:
        raise ConfigMismatch(
            f"{store}: stage {name} was begun with other settings: {'; '.join(differences)}. "
            f"Repeat the old settings, or use another store"
        )


def _check_format(path: Path, value: Json) -> None:
    if value.get("format") != FORMAT:
        raise NotAStore(f"{path} is not the manifest of a {FORMAT}")
    if value["version"] > VERSION:
        raise NotAStore(
            f"{path} has format version {value['version']}, this program knows {VERSION}; "
            f"upgrade retomaton_dist"
        )


def _stage(value: Json) -> Stage:
    listed = {path: FileDigest(**item) for path, item in value.pop("files").items()}
    return Stage(files=listed, **value)


def _differences(old: Any, new: Any, prefix: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys())
        return [
            difference
            for key in keys
            for difference in _differences(
                old.get(key, _ABSENT), new.get(key, _ABSENT), f"{prefix}.{key}".strip(".")
            )
        ]
    # Compared as the config hash sees them: a list equals a tuple, but True is not 1.
    same = canonical.content_hash(old) == canonical.content_hash(new)
    return [] if same else [f"{prefix} was {_short(old)}, now {_short(new)}"]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
