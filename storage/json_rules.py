"""Rules for values that are read from JSON, checked before anything relies on them.

A store may come from anywhere, and its digests are its own maker's: that a file is whole does not
make it harmless. Names and paths become files to write and to remove, so none may lead out of the
store; numbers become sizes, so none may be absurd.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from retomaton_dist.storage.errors import DamagedStore

LONGEST_NAME = 100
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ADVICE = "restore it from a copy, or build the store anew in another folder"

Rule = Callable[[Any], bool]


class JsonObject(dict[str, Any]):
    """A JSON object; asking for a key that it lacks raises DamagedStore."""

    def __missing__(self, key: str) -> Any:
        raise DamagedStore(f"the manifest or a record lacks {key!r}; {_ADVICE}")


def is_name(value: Any) -> bool:
    """Whether this can be the name of a folder inside a store."""
    return isinstance(value, str) and len(value) <= LONGEST_NAME and bool(NAME.fullmatch(value))


def is_stage(value: Any) -> bool:
    """Whether this names a stage, such as `tokenize` or `cluster/kmeans`."""
    if not isinstance(value, str):
        return False
    parts = value.split("/")
    return len(parts) <= 2 and all(map(is_name, parts))


def is_inside(value: Any) -> bool:
    """Whether this is a path below the store's folder, whatever lies there."""
    if not isinstance(value, str) or "\0" in value or "\\" in value:
        return False
    return all(part not in ("", ".", "..") for part in value.split("/"))


def is_text(value: Any) -> bool:
    """Whether this is text."""
    return isinstance(value, str)


def is_whole(value: Any) -> bool:
    """Whether this is a whole number from 0 on that 63 bits hold."""
    return type(value) is int and 0 <= value < 1 << 63


def is_positive(value: Any) -> bool:
    """Whether this is a whole number from 1 on that 63 bits hold."""
    return is_whole(value) and value > 0


def is_number(value: Any) -> bool:
    """Whether this is a finite number."""
    return type(value) in (int, float) and abs(value) < float("inf")


def is_object(value: Any) -> bool:
    """Whether this is a JSON object."""
    return isinstance(value, dict)


def is_files(value: Any) -> bool:
    """Whether this lists files of a store with their digests and sizes."""
    return is_object(value) and all(
        is_inside(path)
        and is_object(item)
        and item.keys() == {"digest", "bytes"}
        and is_text(item["digest"])
        and is_whole(item["bytes"])
        for path, item in value.items()
    )


def or_none(rule: Rule) -> Rule:
    """A rule that allows null besides."""
    return lambda value: value is None or rule(value)


def check_keys(where: str, value: Any, rules: Mapping[str, Rule]) -> None:
    """Refuse a value that is not an object of exactly these keys, each as its rule says."""
    if not is_object(value) or value.keys() != rules.keys():
        holds = ", ".join(sorted(map(str, value))) if is_object(value) else type(value).__name__
        raise DamagedStore(f"{where} holds {holds or 'nothing'}, not what it should; {_ADVICE}")
    check_values(where, value, rules)


def check_values(where: str, value: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Refuse an object in which a key that is there breaks its rule."""
    for key, rule in rules.items():
        if key in value and not rule(value[key]):
            shown = repr(value[key])
            raise DamagedStore(f"{where}: {key} cannot be {shown[:60]}; {_ADVICE}")
