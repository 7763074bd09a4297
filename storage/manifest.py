"""The manifest, `store.json`: what a store was made from and how far each stage has come."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.errors import ConfigMismatch, DamagedStore, NotAStore
from retomaton_dist.storage.files import FileDigest, check_plain
from retomaton_dist.storage.json_rules import (
    JsonObject,
    Rule,
    check_keys,
    check_values,
    is_files,
    is_object,
    is_positive,
    is_stage,
    is_text,
    is_whole,
    or_none,
)

FORMAT = "retomaton-store"
VERSION = 1
MANIFEST_NAME = "store.json"

# More records than this are never listed: an absurd number would fill the memory.
MOST_UNITS = 1 << 22

# What to do instead of repeating a stage's settings.
ELSEWHERE = "use another store"

_ABSENT = "(absent)"
_REMEDY = "restore store.json from a copy, or build the store anew in another folder"


_STAGE: dict[str, Rule] = {
    "name": is_stage,
    "status": lambda value: value in ("running", "done"),
    "config": is_object,
    "units": lambda value: is_whole(value) and value <= MOST_UNITS,
    "attempt": is_whole,
    "digest": or_none(is_text),
    "bytes": is_whole,
    "files": is_files,
    "facts": is_object,
    "made_with": lambda value: is_object(value) and all(map(is_text, value.values())),
}
# What readers of a store rely on, by kind of stage.
_FACTS: dict[str, dict[str, Rule]] = {
    "tokenize": {"prefix": or_none(is_whole), "vocabulary": is_positive, "entries": is_positive},
    "extract": dict.fromkeys(("entries", "dimension", "chunk_entries"), is_positive),
    "cluster": {"states": is_positive, "entries": is_positive},
}
_CONFIG: dict[str, dict[str, Rule]] = {
    "extract": {
        **dict.fromkeys(("unit_chunks", "batch_tokens", "context", "stride"), is_positive),
        **dict.fromkeys(("device", "key", "dtype"), is_text),
    },
    "cluster": {"algorithm": is_text},
    "compile": {"codec": is_text},
    "suffix": {"longest": is_positive},
    "ngram": {"suffixes": is_text},
}


@dataclass(frozen=True)
class Stage:
    """A step of the build: its exact settings, its status, and digests of what it wrote.

    `files` are the files of the stage as a whole; those of its units are named by the completion
    records, `units` of them. `digest` covers both and is set when the stage is done. `facts` are
    results worth showing; `made_with` names the versions that ran it. `attempt` counts how often
    a stage that merges its units was begun from nothing: records of another say nothing of this.
    """

    status: Literal["running", "done"]
    config: Json
    units: int
    digest: str | None = None
    bytes: int = 0
    files: dict[str, FileDigest] = field(default_factory=dict)
    facts: Json = field(default_factory=dict)
    made_with: dict[str, str] = field(default_factory=dict)
    attempt: int = 0

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

    def named(self, kind: str) -> dict[str, Stage]:
        """The stages `kind/NAME`, of which a store may have several, by their own names."""
        parts = ((name.partition("/"), stage) for name, stage in self.stages.items())
        return {own: stage for (first, _, own), stage in parts if own and first == kind}


def write(store: Path, manifest: Manifest) -> None:
    """Replace the manifest durably."""
    stages = [{"name": name, **_as_json(stage)} for name, stage in manifest.stages.items()]
    value = {"format": FORMAT, "version": VERSION, "stages": stages}
    canonical.write(store / MANIFEST_NAME, value)


def read(store: Path) -> Manifest:
    """Read and check the manifest; a foreign, newer or damaged one is refused."""
    path = store / MANIFEST_NAME
    try:
        if not store.is_dir():
            raise NotAStore(f"{store}: no such store; `retomaton extract {store} --help` makes one")
        check_plain(path)
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotAStore(f"{store} is not a store: it has no {MANIFEST_NAME}") from None
    except OSError as error:
        raise NotAStore(f"cannot read {path}: {error.strerror}") from error
    value = canonical.parse(data, path, _REMEDY)
    _check_format(path, value)
    listed = value.get("stages")
    if not isinstance(listed, list):
        raise DamagedStore(f"{path} lists no stages; {_REMEDY}")
    stages = dict(_stage(path, item) for item in listed)
    if len(stages) < len(listed):
        raise DamagedStore(f"{path} lists a stage twice; {_REMEDY}")
    return Manifest(stages)


def check_config(store: Path, name: str, stage: Stage, config: Json) -> None:
    """Refuse a config that is not the one the stage was begun with, naming each difference."""
    differences = list(_differences(stage.config, config))
    if differences:
        kind, _, own = name.partition("/")
        # Codecs have no --name: they are called after their settings.
        otherwise = f"keep both: --name {own}-2" if own and kind != "codec" else ELSEWHERE
        raise ConfigMismatch(
            f"{store}: stage {name} was begun with other settings: {'; '.join(differences)}. "
            f"Repeat the old settings, or {otherwise}"
        )


def _check_format(path: Path, value: Json) -> None:
    if value.get("format") != FORMAT:
        raise NotAStore(f"{path} is not the manifest of a {FORMAT}")
    version: Any = value.get("version")
    if not is_positive(version):
        raise DamagedStore(f"{path} has no format version; {_REMEDY}")
    if version > VERSION:
        raise NotAStore(
            f"{path} has format version {version}, this program knows {VERSION}; "
            f"upgrade retomaton_dist"
        )


def _stage(path: Path, value: Any) -> tuple[str, Stage]:
    """Check one stage as the manifest lists it; return its name and the stage."""
    given = {"attempt": 0, **value} if is_object(value) else value
    check_keys(f"{path}: a stage", given, _STAGE)
    name = given.pop("name")
    for part, rules in (("facts", _FACTS), ("config", _CONFIG)):
        of_kind = rules.get(name.split("/")[0], {})
        check_values(f"{path}: {part} of stage {name}", given[part], of_kind)
        given[part] = JsonObject(given[part])
    listed = {key: FileDigest(**item) for key, item in given.pop("files").items()}
    return name, Stage(files=listed, **given)


def _as_json(stage: Stage) -> Json:
    value = asdict(stage)
    # Left out where it is 0, as in stores that were written before there were attempts.
    return value if stage.attempt else {key: value[key] for key in value if key != "attempt"}


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
