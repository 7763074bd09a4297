"""The folder of an evaluation, as the report reads it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.report.rows import PARTS, Row, read_row
from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json

FILES = ("settings", "results", "analysis", "calibration", "duplicates")
# An evaluation of the LM alone has nothing to analyse; older ones looked for no duplicates.
OPTIONAL = ("analysis", "duplicates")

_NUMBER = int | float
_GROUP = {
    "tokens": int,
    **dict.fromkeys(("baseline", "ratio", "worse"), _NUMBER),
    "interval?": [_NUMBER],
}
_SIDE = {"share": _NUMBER, "factor": _NUMBER, "by_at_least": [[_NUMBER]]}
_POINT = {"method": str, "clustering?": str, "foss": _NUMBER}
_COUNTS = ("documents", "tokens", "same_tokens", "near_tokens")

# What a report reads and the same command has not written: results.json is always measured anew.
# A list stands for any number of its item, "*" for any key; a key with "?" may be missing or null.
_SHAPES: dict[str, Any] = {
    "results": {
        "rows": [dict],
        "mode": str,
        "positions": int,
        "documents": int,
        "words?": int,
        "seconds?": dict.fromkeys(PARTS, _NUMBER),
        "caps?": {"*": int},
    },
    "analysis": {
        "gains?": [
            {
                **_POINT,
                "against": {"method": str},
                "all": _GROUP,
                "better": _SIDE,
                "worse": _SIDE,
                "groupings": [{"title": str, "groups": [{"name": str, **_GROUP}]}],
            }
        ],
        "runs?": {
            "walk": str,
            "lengths": [[int]],
            **dict.fromkeys(("runs", "tokens", "longest"), int),
            **dict.fromkeys(("share_longer_than_1", "foss"), _NUMBER),
        },
        "overlap?": [
            dict.fromkeys(("n", "types", "types_seen", "occurrences", "occurrences_seen"), int)
        ],
    },
    "duplicates": {
        "pairs?": [
            {"text": str, "in": str, "same": [int], "near": [int], **dict.fromkeys(_COUNTS, int)}
        ]
    },
    "settings": {
        "corpus?": {"sources?": int, "first_source?": str},
        "size?": {"entries": int, "calibration_tokens?": int},
        "tried?": {"temperatures?": [_NUMBER], "edges?": {"*": [str]}},
    },
    "calibration": {"methods?": {"*": dict}},
}


@dataclass(frozen=True)
class EvaluationFiles:
    """What an evaluation left: its JSON files, and the points of its curves.

    `made` is when it was scored, in seconds since 1970.
    """

    settings: Json
    results: Json
    analysis: Json
    calibration: Json
    duplicates: Json
    rows: tuple[Row, ...]
    made: float = 0.0


def read_evaluation(folder: Path) -> EvaluationFiles:
    """Read the JSON files of an evaluation; a missing or damaged one is named in one line."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder of an evaluation; give the folder of --out")
    read = {name: _read(folder / f"{name}.json") for name in FILES}
    for name, shape in _SHAPES.items():
        _check_shape(read[name], shape, f"{folder / name}.json")
    rows = tuple(
        read_row(item, f"{folder / 'results.json'}: rows[{i}]")
        for i, item in enumerate(read["results"]["rows"])
    )
    made = (folder / "settings.json").stat().st_mtime
    return EvaluationFiles(**read, rows=rows, made=made)


def _read(path: Path) -> Json:
    try:
        return canonical.read(path, "evaluate again")
    except FileNotFoundError:
        if path.stem in OPTIONAL:
            return {}
        raise BadInput(f"{path} is missing; is this the folder of a finished evaluation?") from None
    except (OSError, RecursionError) as error:
        raise DamagedStore(f"{path} cannot be read ({error}); evaluate again") from error


def _check_shape(value: Any, shape: Any, where: str) -> None:
    """Raise DamagedStore with the place of the first thing that has another shape."""
    kind = type(shape) if isinstance(shape, dict | list) else shape
    if not isinstance(value, kind):
        raise DamagedStore(f"{where} is not what an evaluation writes; evaluate again")
    if isinstance(shape, list):
        for number, item in enumerate(value):
            _check_shape(item, shape[0], f"{where}[{number}]")
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            _check_key(value, key, inner, where)


def _check_key(value: Any, key: str, shape: Any, where: str) -> None:
    name = key.removesuffix("?")
    if key == "*":
        for other, item in value.items():
            _check_shape(item, shape, f"{where}: {other}")
    elif value.get(name) is not None:
        _check_shape(value[name], shape, f"{where}: {name}")
    elif name == key:
        raise DamagedStore(f"{where} has no {name!r}; evaluate again")
