"""Settings from flags, from a TOML file and from Python keywords, with one meaning.

A TOML file has a table per group of settings ([corpus], [model], ...) whose keys are the flags'
names, and may name the `store` at its top. Flags win over the file, the file over defaults.
An unknown key is refused with the nearest known one.
"""

import contextlib
import dataclasses
import inspect
import keyword
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from retomaton_dist.errors import BadInput
from retomaton_dist.registry import LONGEST, nearest
from retomaton_dist.settings import GROUPS, PRESETS, BuildSettings, WalkSettings
from retomaton_dist.settings.option import flag_of
from retomaton_dist.settings.stages import STAGES
from retomaton_dist.storage.files import check_plain

Group = TypeVar("Group")

NOTHING: Mapping[str, Any] = types.MappingProxyType({})
TOP_LEVEL = ("store",)
# No setting is as large; Python does not even print numbers of thousands of digits.
BEYOND = 1 << 64
# The groups that `build` has flags for; the stages after extraction have a table each.
FLAGGED = (*next(stage.groups for stage in STAGES if stage.name == "extract"), "parts")
TABLES = tuple(stage.name for stage in STAGES if stage.settings and not stage.from_text)


def read_file(path: str | Path) -> dict[str, Any]:
    """Read a TOML file and check that every table and key in it is known."""
    try:
        check_plain(Path(path))
        with Path(path).open("rb") as file:
            document = tomllib.load(file)
        repr(document)  # of what Python cannot show, a refusal could not name the value
    except OSError as error:
        raise BadInput(f"cannot read --config {path}: {error.strerror}") from error
    # Besides its own errors: numbers of thousands of digits, brackets inside brackets without end.
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--config {path} is not TOML: {error}") from error
    for name, value in document.items():
        check_known(name, [*TOP_LEVEL, *GROUPS], f"--config {path}")
        if name in GROUPS:
            checked_table(value, GROUPS[name], f"--config {path}, [{name}]")
        elif not isinstance(value, str):
            raise BadInput(f"--config {path}: {name} must be text, not {type(value).__name__}")
    return {
        name: value if name in TOP_LEVEL else _renamed(value) for name, value in document.items()
    }


def make_group(
    kind: type[Group], given: Mapping[str, Any], from_file: Mapping[str, Any] = NOTHING
) -> Group:
    """Make one group of settings; `given` (flags or keywords) wins over the file's table."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    merged = {**from_file, **given}
    values = {
        name: checked(field, merged[name]) for name, field in fields.items() if name in merged
    }
    for name, field in fields.items():
        if field.metadata.get("required") and name not in values:
            raise BadInput(f"--{flag_of(field)} is needed: {field.metadata['help']}")
    return kind(**values)


def make_groups(
    kinds: Sequence[type[Any]], given: Mapping[str, Any], tables: Mapping[str, Any] = NOTHING
) -> list[Any]:
    """Make several groups; `given` wins over the file's `tables`.

    What is not given of a walk is as in the preset that a group before it names.
    """
    names, made = {kind: name for name, kind in GROUPS.items()}, list[Any]()
    preset: Mapping[str, Any] = NOTHING
    for kind in kinds:
        known = {field.name for field in dataclasses.fields(kind)}
        chosen = {name: value for name, value in given.items() if name in known}
        defaults = preset if kind is WalkSettings else NOTHING
        made.append(make_group(kind, chosen, {**defaults, **tables.get(names[kind], {})}))
        if "preset" in known:
            preset = dataclasses.asdict(PRESETS[made[-1].preset])
    return made


def split_keywords(
    kinds: Sequence[type[Any]], keywords: Mapping[str, Any], others: Sequence[str] = ()
) -> list[Any]:
    """Make several groups from Python keywords, each of which must belong to one of them.

    `others` are what the caller takes besides: named where an unknown keyword comes near.
    """
    known = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    for name in keywords:
        check_known(name, sorted({*known, *others}), "argument")
    return make_groups(kinds, keywords)


def build_settings(keywords: Mapping[str, Any]) -> BuildSettings:
    """The settings of all stages, from the keywords of `rd.build`."""
    flags = {name: value for name, value in keywords.items() if name not in TABLES}
    groups = split_keywords([GROUPS[name] for name in FLAGGED], flags, TABLES)
    return with_tables(groups, keywords)


def with_tables(groups: Sequence[Any], tables: Mapping[str, Any]) -> BuildSettings:
    """The groups that `build` has flags for, with the tables of the stages after extraction.

    Any table may be missing; others are ignored. What is compiled is the clustering that the build
    makes, unless [compile] names another; n-grams are counted over its suffix index likewise.
    """
    made: dict[str, Any] = {}
    for name in TABLES:
        given = checked_table(tables.get(name, {}), GROUPS[name], f"[{name}]")
        if name == "compile":
            given = {"states": made["cluster"].clustering, **given}
        if name == "ngram":
            given = {"suffixes": made["suffix"].name, **given}
        with in_table(name):
            made[name] = make_group(GROUPS[name], given)
    return BuildSettings((*groups, *made.values()))


@contextlib.contextmanager
def in_table(name: str) -> Iterator[None]:
    """Say of what a block refuses in which table it stands: `name` and others are in several."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"[{name}] {error}") from error


def checked(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """Bring a value to the field's type; text comes from flags, other types from TOML."""
    kind, optional = type_of(field)
    if isinstance(value, int) and abs(value) >= BEYOND:
        raise BadInput(f"--{flag_of(field)}: the number is beyond all bounds")
    if optional and value in (None, "auto"):
        return None
    choices = field.metadata.get("choices")
    if choices and value not in choices:
        offered = ", ".join(["auto", *choices] if optional else choices)
        raise BadInput(f"--{flag_of(field)} {value}: choose one of {offered}")
    if kind is tuple:
        return _listed(field, value)
    return _converted(field, kind, value)


def _listed(field: "dataclasses.Field[Any]", value: Any) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str | Path) else value
    if not (
        isinstance(items, list | tuple) and all(isinstance(item, str | Path) for item in items)
    ):
        raise BadInput(f"--{flag_of(field)} {value}: must be text or a list of texts")
    return tuple(str(item) for item in items)


def _converted(field: "dataclasses.Field[Any]", kind: type[Any], value: Any) -> Any:
    fits = isinstance(value, bool) == (kind is bool) and isinstance(
        value, (int, float, str) if kind is float else (int, str) if kind is int else (kind, Path)
    )
    try:
        if fits:
            return kind(value)
    except ValueError:
        pass
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise BadInput(f"--{flag_of(field)} {value}: must be {names[kind]}")


def type_of(field: "dataclasses.Field[Any]") -> tuple[type[Any], bool]:
    """The type of a field's value, and whether `auto` is one too."""
    hint = field.type
    if isinstance(hint, types.UnionType):
        return typing.get_args(hint)[0], True
    origin = typing.get_origin(hint)
    return (origin or hint), False  # type: ignore[return-value]


def checked_table(table: Any, group: type[Any], place: str) -> dict[str, Any]:
    """A group's settings by their names in Python; `place` says where an unknown key stands."""
    if not isinstance(table, dict):
        raise BadInput(f"{place} must be a table of settings")
    known = [field.name for field in dataclasses.fields(group)]
    renamed = _renamed(table)
    for key in renamed:
        check_known(key, known, place)
    return renamed


def check_known(name: str, known: Sequence[str], place: str) -> None:
    """Refuse a name that is none of those known; `place` says where it stands."""
    if name not in known:
        near, shown = nearest(name, known, likeness=0), name[:LONGEST]
        raise BadInput(f"{place}: unknown key {shown!r}; the nearest known one is {near!r}")


def refuse_unknown(function: Callable[..., Any], unknown: Mapping[str, Any]) -> None:
    """Refuse keywords that a function does not take, with the nearest that it does."""
    known = [name for name in inspect.signature(function).parameters if name != "unknown"]
    for name in unknown:
        near = nearest(name, known, likeness=0)
        raise BadInput(f"{function.__name__}: unknown argument {name!r}; did you mean {near!r}?")


def _renamed(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table by its keys' names in Python, where `lambda` is taken."""
    names = {key: key.replace("-", "_") for key in table}
    return {
        f"{name}_" if keyword.iskeyword(name) else name: table[key] for key, name in names.items()
    }
