"""The folder of an evaluation, as the report reads it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.report.rows import Row, read_row
from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json

FILES = ("settings", "results", "analysis", "calibration", "duplicates")
# An evaluation of the LM alone has nothing to analyse; older ones looked for no duplicates.
OPTIONAL = ("analysis", "duplicates")

_NUMBER = int | float
_SECONDS = {"lm": _NUMBER, "search": _NUMBER, "walk": _NUMBER, "rest": _NUMBER, "total": _NUMBER}
_STRETCH = {
    "document": str,
    "file": str,
    "document_offset": int,
    "byte_in_document": int,
    "before": str,
    "text": str,
    "after": str,
}
_RUNS = {
    "lengths": [[int]],
    "runs": int,
    "tokens": int,
    "share_longer_than_1": _NUMBER,
    "longest": int,
    "foss": _NUMBER,
}
_OVERLAP = {
    "n": int,
    "types": int,
    "types_seen": int,
    "occurrences": int,
    "occurrences_seen": int,
}
_SEQUENCE = {
    "text": str,
    "count": int,
    "probability": _NUMBER,
    "probability_per_token": _NUMBER,
}

_GROUP = {
    "tokens": int,
    "baseline": _NUMBER,
    "perplexity": _NUMBER,
    "ratio": _NUMBER,
    "interval?": [_NUMBER],
    "better": _NUMBER,
    "worse": _NUMBER,
}
_SIDE = {"share": _NUMBER, "factor": _NUMBER, "by_at_least": [[_NUMBER]]}
_POINT = {"method": str, "clustering?": str, "foss": _NUMBER}
_GAINS = {
    **_POINT,
    "against": {"method": str},
    "all": _GROUP,
    "better": _SIDE,
    "worse": _SIDE,
    "groupings": [{"title": str, "groups": [{"name": str, **_GROUP}]}],
}
_RECALIBRATED = {
    **_POINT,
    "lambda": [_NUMBER],
    "temperatures": [[_NUMBER]],
    "perplexity": _NUMBER,
    "over_calibration?": [_NUMBER],
    "over_both?": [_NUMBER],
    "baseline?": str,
    "ratio_over_calibration?": [_NUMBER],
    "ratio_over_both?": [_NUMBER],
}
_RETRAINED = {
    **_POINT,
    "perplexity": _NUMBER,
    "perplexities": [_NUMBER],
    "baseline?": str,
    "ratios?": [_NUMBER],
}
_RELIABILITY = {
    **_POINT,
    "bins": [{"said": _NUMBER, "came": _NUMBER, "tokens": int}],
    "said": _NUMBER,
    "came": _NUMBER,
    "error": _NUMBER,
}
_PAIR = {
    "text": str,
    "in": str,
    "documents": int,
    "tokens": int,
    "same": [int],
    "same_tokens": int,
    "near": [int],
    "near_tokens": int,
}

# A list stands for any number of its item, "*" for any key; a key with "?" may be missing or null.
_SHAPES: dict[str, Any] = {
    "results": {
        "rows": [dict],
        "mode": str,
        "positions": int,
        "documents": int,
        "words?": int,
        "seconds?": _SECONDS,
        "caps?": {"*": int},
        "recalibrated?": [_RECALIBRATED],
        "retrained?": [_RETRAINED],
        "reliability?": [_RELIABILITY],
    },
    "analysis": {
        "walk?": str,
        "gains?": [_GAINS],
        "runs?": _RUNS,
        "overlap?": [_OVERLAP],
        "sequences?": {"*": [_SEQUENCE]},
        "passage?": {
            "tokens": int,
            "evaluated": _STRETCH,
            "source?": {**_STRETCH, "tokens": int, "entry?": int},
        },
    },
    "duplicates": {"pairs?": [_PAIR]},
    "settings": {"tried?": {"temperatures?": [_NUMBER], "edges?": {"*": [str]}}},
    "calibration": {
        "methods?": {
            "*": dict,
            "adaptret?": {"positions": int, "held_out": int, "epochs": int, "seconds?": _NUMBER},
        },
    },
}


@dataclass(frozen=True)
class EvaluationFiles:
    """What an evaluation left: its JSON files, and the points of its curves."""

    settings: Json
    results: Json
    analysis: Json
    calibration: Json
    duplicates: Json
    rows: tuple[Row, ...]


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
    return EvaluationFiles(**read, rows=rows)


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
    if isinstance(shape, dict):
        _check_type(value, dict, where)
        for key, inner in shape.items():
            _check_key(value, key, inner, where)
    elif isinstance(shape, list):
        _check_type(value, list, where)
        for number, item in enumerate(value):
            _check_shape(item, shape[0], f"{where}[{number}]")
    else:
        _check_type(value, shape, where)


def _check_key(value: dict[str, Any], key: str, shape: Any, where: str) -> None:
    name = key.removesuffix("?")
    if key == "*":
        for other, item in value.items():
            _check_shape(item, shape, f"{where}: {other}")
    elif value.get(name) is not None:
        _check_shape(value[name], shape, f"{where}: {name}")
    elif name == key:
        raise DamagedStore(f"{where} has no {name!r}; evaluate again")


def _check_type(value: Any, kind: Any, where: str) -> None:
    if not isinstance(value, kind):
        raise DamagedStore(f"{where} is not what an evaluation writes; evaluate again")
