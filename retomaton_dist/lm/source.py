"""Where a language model lies: a folder or a GGUF file on this machine, or a model of the hub."""

import hashlib
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.errors import ModelError
from retomaton_dist.settings import ModelSettings

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
TEXT_FILES = ["*.json", "*.txt", "*.model", "*.jinja"]


@dataclass(frozen=True)
class ModelSource:
    """A model whose files are on this machine.

    `name` is what the user wrote; `place` is the absolute path of a folder or GGUF file, or the
    id of a hub model, and `revision` the latter's commit. The files are in `folder`; `gguf` is
    the file's name if it is a GGUF file.
    """

    name: str
    place: str
    revision: str | None
    folder: Path
    gguf: str | None = None

    def arguments(self) -> dict[str, str | bool]:
        """Return what tells a `from_pretrained` of transformers to read these files alone."""
        arguments: dict[str, str | bool] = {
            "pretrained_model_name_or_path": str(self.folder),
            "local_files_only": True,
        }
        return arguments | ({"gguf_file": self.gguf} if self.gguf else {})


@dataclass(frozen=True)
class Wanted:
    """What is needed of a hub model besides config and tokenizer: its own code, its weights."""

    code: bool
    weights: bool = True


def find_model(settings: ModelSettings, weights: bool = True) -> ModelSource:
    """Return the model that the user means: a path that exists, else a model of the hub.

    A hub model is fetched (or found in the hub's cache), and its revision becomes a commit.
    Raises ModelError when there is no such file, folder or hub model, or it is not a model.
    """
    name = settings.model
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - Path's raises for an unknown ~user
    if path.exists() or name.endswith(".gguf") or not HUB_ID.fullmatch(name):
        return find_place(name, str(path.absolute()), None, Wanted(settings.trust_remote_code))
    revision = settings.revision or "main"
    return find_place(name, name, revision, Wanted(settings.trust_remote_code, weights))


def find_place(name: str, place: str, revision: str | None, wanted: Wanted) -> ModelSource:
    """Return the model at a place that is already known: see ModelSource, or raise ModelError."""
    if revision is not None:
        return _checked(_hub_model(name, place, revision, wanted))
    path = Path(place)
    if path.is_dir():
        return _checked(ModelSource(name, place, None, path))
    if not path.is_file():
        raise ModelError(f"model {name!r}: there is no such file or folder; check the path")
    if path.suffix != ".gguf":
        raise ModelError(
            f"model {name!r} is a file but not a .gguf file; give a model's folder or a .gguf file"
        )
    return ModelSource(name, str(path), None, path.parent, path.name)


def _checked(source: ModelSource) -> ModelSource:
    if not (source.folder / "config.json").is_file():
        raise ModelError(
            f"model {source.name!r}: {source.folder} has no config.json; "
            "give the folder of a Hugging Face model, or a .gguf file"
        )
    return source


def _hub_model(name: str, place: str, revision: str, wanted: Wanted) -> ModelSource:
    code = ["*.py"] if wanted.code else []
    weights = ["*.safetensors"] if wanted.weights else []
    folder = _download(place, revision, [*TEXT_FILES, *code, *weights])
    # The cache holds a folder for each commit, so that one found once is found again.
    commit = folder.name
    if wanted.weights and not any(folder.glob("*.safetensors")):
        _download(place, commit, ["*.bin"])
    return ModelSource(name, place, commit, folder)


def _download(place: str, revision: str, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download  # slow to import, needed for hub models alone
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        # Sub-folders hold other formats of the same weights (onnx/, original/).
        return Path(
            snapshot_download(
                place, revision=revision, allow_patterns=patterns, ignore_patterns=["*/*"]
            )
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise ModelError(
            f"model {place!r} at revision {revision!r} is no folder here, and the Hugging Face hub "
            f"or its cache does not give it ({str(error).splitlines()[0]}); check the name and "
            "the network, or give a local folder"
        ) from error


def weight_files(source: ModelSource) -> list[Path]:
    """Return the files that hold the weights, by name: *.safetensors, else *.bin, or the GGUF."""
    if source.gguf:
        return [source.folder / source.gguf]
    for pattern in ("*.safetensors", "*.bin"):
        found = sorted(path for path in source.folder.glob(pattern) if path.is_file())
        if found:
            return found
    raise ModelError(
        f"model {source.name!r}: {source.folder} has no weights "
        "(*.safetensors or *.bin); is the download complete?"
    )


def fingerprint(source: ModelSource) -> str:
    """Return a SHA-256 of the model's config and weights: of contents alone, not of paths."""
    total = hashlib.sha256()
    config = [] if source.gguf else [source.folder / "config.json"]
    for path in (*config, *weight_files(source)):
        try:
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise ModelError(
                f"model {source.name!r}: cannot read {path}: {error.strerror}"
            ) from error
    return total.hexdigest()


def require_gguf(source: ModelSource, *packages: str) -> None:
    """Raise ModelError if the model is a GGUF file and a package that reads it is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if source.gguf and missing:
        raise ModelError(
            f"model {source.name!r} is a GGUF file; to read it, run "
            f"`pip install {' '.join(missing)}`"
        )
