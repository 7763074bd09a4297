"""What the JSON files of an evaluation must look like for a report to be made of them."""

from typing import Any

from retomaton_dist.errors import DamagedStore

Number = int | float
_SECONDS = {"lm": Number, "search": Number, "walk": Number, "rest": Number, "total": Number}
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
    "share_longer_than_1": Number,
    "longest": int,
    "foss": Number,
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
    "probability": Number,
    "probability_per_token": Number,
}

# A list stands for any number of its item, "*" for any key; a key with "?" may be missing or null.
SHAPES: dict[str, Any] = {
    "results": {
        "rows": [dict],
        "mode": str,
        "positions": int,
        "documents": int,
        "words?": int,
        "seconds?": _SECONDS,
        "caps?": {"*": int},
    },
    "analysis": {
        "walk?": str,
        "runs?": _RUNS,
        "overlap?": [_OVERLAP],
        "sequences?": {"*": [_SEQUENCE]},
        "passage?": {
            "tokens": int,
            "evaluated": _STRETCH,
            "source?": {**_STRETCH, "tokens": int, "entry?": int},
        },
    },
    "calibration": {
        "methods?": {
            "*": dict,
            "adaptret?": {"positions": int, "held_out": int, "epochs": int, "seconds": Number},
        },
    },
}


def check_shape(value: Any, shape: Any, where: str) -> None:
    """Raise DamagedStore with the place of the first thing that has another shape."""
    if isinstance(shape, dict):
        _check_type(value, dict, where)
        for key, inner in shape.items():
            _check_key(value, key, inner, where)
    elif isinstance(shape, list):
        _check_type(value, list, where)
        for number, item in enumerate(value):
            check_shape(item, shape[0], f"{where}[{number}]")
    else:
        _check_type(value, shape, where)


def _check_key(value: dict[str, Any], key: str, shape: Any, where: str) -> None:
    name = key.removesuffix("?")
    if key == "*":
        for other, item in value.items():
            check_shape(item, shape, f"{where}: {other}")
    elif value.get(name) is not None:
        check_shape(value[name], shape, f"{where}: {name}")
    elif name == key:
        raise DamagedStore(f"{where} has no {name!r}; evaluate again")


def _check_type(value: Any, kind: Any, where: str) -> None:
    if not isinstance(value, kind):
        raise DamagedStore(f"{where} is not what an evaluation writes; evaluate again")
