"""A folder of Arrow columns and a JSON description of them; it needs nothing outside itself.

The description holds the folder's shape and the size of every column, so that a missing,
truncated, foreign or newer folder is refused when it is opened.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from retomaton_dist.storage import canonical, columns, files
from retomaton_dist.storage.errors import DamagedStore, NotAStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.json_rules import (
    Rule,
    check_keys,
    is_name,
    is_object,
    is_text,
    is_whole,
)

_DESCRIPTION: dict[str, Rule] = {
    "format": is_text,
    "version": is_whole,
    "shape": is_object,
    "bytes": lambda value: (
        is_object(value) and all(map(is_name, value)) and all(map(is_whole, value.values()))
    ),
}


class ColumnShape(Protocol):
    """Sizes of a folder, from which the type and length of each of its columns follow."""

    def columns(self) -> dict[str, tuple[Any, int]]:
        """Type and length of every column."""
        ...


SomeShape = TypeVar("SomeShape", bound=ColumnShape)


@dataclass(frozen=True)
class FolderFormat(Generic[SomeShape]):
    """What such folders are called, where they lie in a store, and the command that makes them.

    what         what messages call one
    folder       the folder of the store in which they lie, each by its name
    description  the JSON file, with `format` and `version`
    make_shape   its shape from JSON values that pass `rules`
    """

    what: str
    folder: str
    description: str
    format: str
    version: int
    command: str
    make_shape: Callable[..., SomeShape]
    rules: Mapping[str, Rule]

    @property
    def remedy(self) -> str:
        """What to do about a damaged folder."""
        return f"make it anew: `retomaton {self.command} STORE`"

    def path(self, store: Path, name: str) -> Path:
        """Where the folder of this name lies."""
        return store / self.folder / name

    def describe(
        self, folder: Path, shape: SomeShape, written: Mapping[str, FileDigest]
    ) -> dict[str, FileDigest]:
        """Describe a folder whose columns are written; return all its files, as in the store."""
        value = {
            "format": self.format,
            "version": self.version,
            "shape": asdict(shape),  # type: ignore[call-overload] # shapes are dataclasses
            "bytes": {name: item.bytes for name, item in written.items()},
        }
        inside = f"{self.folder}/{folder.name}"
        listed = {f"{inside}/{name}.arrow": digest for name, digest in written.items()}
        path = folder / self.description
        listed[f"{inside}/{self.description}"] = files.write(path, canonical.serialise(value))
        return listed

    def open(self, folder: Path) -> "ColumnFolder[SomeShape]":
        """Open a folder; a missing, foreign, newer, truncated or absurd one is refused."""
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
        check_keys(str(path), value, _DESCRIPTION)
        check_keys(f"{path}: shape", value["shape"], self.rules)
        for name, size in value["bytes"].items():
            files.check_size(folder / f"{name}.arrow", size, self.remedy)
        return ColumnFolder(folder, self.make_shape(**value["shape"]), self)


@dataclass(frozen=True)
class ColumnFolder(Generic[SomeShape]):
    """Read access to such a folder: memory-mapped, nothing loaded."""

    folder: Path
    shape: SomeShape
    format: FolderFormat[SomeShape]

    def column(self, name: str) -> NDArray[Any]:
        """A column whose type and length the shape tells, mapped."""
        return self.mapped(name, *self.shape.columns()[name])

    def mapped(self, name: str, dtype: Any, length: int) -> NDArray[Any]:
        """Any column of this type and length, mapped."""
        return map_column(self.folder / f"{name}.arrow", name, dtype, length, self.format.remedy)

    def damaged(self, problem: str) -> DamagedStore:
        """The error that says what is wrong with the description."""
        path = self.folder / self.format.description
        return DamagedStore(f"{path}: {problem}; {self.format.remedy}")


def map_column(
    path: Path, name: str, dtype: Any, length: int, remedy: str = "`retomaton verify` the store"
) -> NDArray[Any]:
    """Map a column of an Arrow file; another type or length is damage."""
    column = columns.map_columns(path, {name: dtype})[name]
    if len(column) != length:
        raise DamagedStore(f"{path} has {len(column):,} numbers instead of {length:,}; {remedy}")
    return column
