"""Where a language model lies: a folder or a GGUF file on this machine, or a model of the hub."""

import hashlib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.errors import ModelError
from retomaton_dist.settings import ModelSettings

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
TEXT_FILES = ["*.json", "*.txt", "*.model", "*.jinja"]


@dataclass(frozen=True)
class ModelSource:
    """A model whose files are on this machine.

    `name` is what the user wrote, `folder` where the files are, `gguf` the file's name if it is
    a GGUF file, `revision` that of a hub model if one was asked for.
    """

    name: str
    folder: Path
    gguf: str | None = None
    revision: str | None = None

    def arguments(self) -> dict[str, str | bool]:
        """Return what tells a `from_pretrained` of transformers to read these files alone."""
        arguments: dict[str, str | bool] = {
            "pretrained_model_name_or_path": str(self.folder),
            "local_files_only": True,
        }
        return arguments | ({"gguf_file": self.gguf} if self.gguf else {})


def find_model(settings: ModelSettings) -> ModelSource:
    """Return the model's files, fetched from the hub (or its cache) if they are not a local path.

    Raises ModelError when there is no such file, folder or hub model, or it is not a model.
    """
    name = settings.model
    path = Path(name).expanduser()
    if path.is_file():
        return _gguf_file(name, path)
    if path.is_dir():
        return _checked(ModelSource(name, path))
    if name.endswith(".gguf") or not HUB_ID.fullmatch(name):
        raise ModelError(f"model {name!r}: there is no such file or folder; check the path")
    return _checked(_hub_model(name, settings.revision, settings.trust_remote_code))


def _gguf_file(name: str, path: Path) -> ModelSource:
    if path.suffix != ".gguf":
        raise ModelError(
            f"model {name!r} is a file but not a .gguf file; give a model's folder or a .gguf file"
        )
    return ModelSource(name, path.parent, path.name)


def _checked(source: ModelSource) -> ModelSource:
    if not (source.folder / "config.json").is_file():
        raise ModelError(
            f"model {source.name!r}: {source.folder} has no config.json; "
            "give the folder of a Hugging Face model, or a .gguf file"
        )
    return source


def _hub_model(name: str, revision: str | None, code: bool) -> ModelSource:
    folder = _download(name, revision, [*TEXT_FILES, "*.safetensors", *(["*.py"] if code else [])])
    if not any(folder.glob("*.safetensors")):
        _download(name, revision, ["*.bin"])
    return ModelSource(name, folder, revision=revision)


def _download(name: str, revision: str | None, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download  # slow to import, needed for hub models alone
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        # Sub-folders hold other formats of the same weights (onnx/, original/).
        return Path(
            snapshot_download(
                name, revision=revision, allow_patterns=patterns, ignore_patterns=["*/*"]
            )
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        at = f" at revision {revision!r}" if revision else ""
        raise ModelError(
            f"model {name!r}{at} is no folder here, and the Hugging Face hub or its cache does "
            f"not give it ({str(error).splitlines()[0]}); check the name and the network, "
            "or give a local folder"
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
    for path in _fingerprinted(source):
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _fingerprinted(source: ModelSource) -> Iterator[Path]:
    if not source.gguf:
        yield source.folder / "config.json"
    yield from weight_files(source)


def require_gguf(source: ModelSource, *packages: str) -> None:
    """Raise ModelError if the model is a GGUF file and a package that reads it is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if source.gguf and missing:
        raise ModelError(
            f"model {source.name!r} is a GGUF file; to read it, run "
            f"`pip install {' '.join(missing)}`"
        )
