"""A folder of Arrow columns, and a file that says what they are: it needs nothing outside itself.

The description holds the folder's shape and the size of every column, so that what is missing,
truncated, foreign or newer is refused when the folder is opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from retomaton_dist.storage import canonical, columns, files
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.errors import DamagedStore, NotAStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.shaped import Rule, check_shape, is_name, is_object, is_text, is_whole

_DESCRIPTION: dict[str, Rule] = {
    "format": is_text,
    "version": is_whole,
    "shape": is_object,
    "bytes": lambda value: (
        is_object(value) and all(map(is_name, value)) and all(map(is_whole, value.values()))
    ),
}


@dataclass(frozen=True)
class Kind:
    """What a folder is: its description's name, its format, and the command that makes one."""

    what: str
    description: str
    format: str
    version: int
    command: str

    @property
    def remedy(self) -> str:
        """What to do about a damaged one."""
        return f"make it anew: `retomaton {self.command} STORE`"

    def write(self, folder: Path, shape: Json, listed: Mapping[str, FileDigest]) -> FileDigest:
        """Describe a folder whose columns are written."""
        value = {
            "format": self.format,
            "version": self.version,
            "shape": shape,
            "bytes": {name: item.bytes for name, item in listed.items()},
        }
        return files.write(folder / self.description, canonical.serialise(value))

    def read(self, folder: Path, rules: Mapping[str, Rule]) -> Json:
        """The shape of a folder; a missing, foreign, newer, truncated or absurd one is refused."""
        path = folder / self.description
        try:
            value = canonical.read(path, self.remedy)
        except OSError as error:
            raise NotAStore(
                f"{folder} is not {self.what}: cannot read {self.description} "
                f"({error.strerror}); `retomaton {self.command} STORE` makes one"
            ) from error
        if value.get("format") != self.format or value.get("version") != self.version:
            raise NotAStore(f"{path} is of another kind or newer; upgrade retomaton_dist")
        check_shape(str(path), value, _DESCRIPTION)
        check_shape(f"{path}: shape", value["shape"], rules)
        for name, size in value["bytes"].items():
            self._check_size(folder / f"{name}.arrow", size)
        shape: Json = value["shape"]
        return shape

    def column(self, folder: Path, name: str, kind: Any, length: int) -> NDArray[Any]:
        """One column, mapped."""
        path = folder / f"{name}.arrow"
        found = columns.map_columns(path, {name: kind})[name]
        if len(found) != length:
            raise DamagedStore(
                f"{path} has {len(found):,} numbers instead of {length:,}; {self.remedy}"
            )
        return found

    def _check_size(self, path: Path, expected: int) -> None:
        size = path.stat().st_size if path.is_file() else None
        if size != expected:
            found = "is missing" if size is None else f"has {size:,} bytes instead of {expected:,}"
            raise DamagedStore(f"{path} {found}; {self.remedy}")
