"""Declaring a setting: its help, its default, and what it may be, all in one place.

A field of a group is a flag of the command line (`batch_tokens` is `--batch-tokens`), a key of its
table in the TOML file, and a keyword of the Python API. Whatever can be refused without knowing the
store, the model or the cluster is refused when the group is made, by whichever entrance.
"""

import dataclasses
import math
import operator
from dataclasses import dataclass
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.storage.json_rules import LONGEST_NAME, is_name

Field = dataclasses.Field


def option(help: str, default: Any = ..., **rules: Any) -> Any:  # noqa: A002 - argparse's word
    """Declare a setting with its help text, and its default unless it is required.

    Rules: `choices`; bounds `least` and `most` (included), `above` and `below` (excluded);
    `names=True` for the name of a folder inside the store; `path` for what lies elsewhere: `text`
    to read, a `model` (a path, or a name of the hub), or any other `place`. `shown` is what help
    shows as the default.
    """
    metadata = {"help": help, **rules}
    if default is ...:
        return dataclasses.field(metadata={**metadata, "required": True})
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A group of settings, sound once it exists. `None` is `auto`: the program finds out."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                _check(field, value)
        self.check()

    def check(self) -> None:
        """Refuse what is wrong with several settings together."""


def flag_of(field: "Field[Any]") -> str:
    """A field's flag, without its dashes in front."""
    return field.name.rstrip("_").replace("_", "-")


def _check(field: "Field[Any]", value: Any) -> None:
    rules = field.metadata
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str) and "\0" in text:
            raise BadInput(f"--{flag_of(field)} {text!r}: no name or path holds a NUL byte")
    if rules.get("names") and not is_name(value):
        raise BadInput(
            f"--{flag_of(field)} {value[:LONGEST_NAME]}: use letters, digits, '.', '_' and '-', "
            f"{LONGEST_NAME} at most"
        )
    # NaN is within no bounds.
    holds = {"least": operator.ge, "most": operator.le, "above": operator.gt, "below": operator.lt}
    if not all(test(value, rules[name]) for name, test in holds.items() if name in rules):
        raise BadInput(f"--{flag_of(field)} {_shown(value)}: {_bounds(rules)}")


def _bounds(rules: Any) -> str:
    low = f"at least {rules['least']}" if "least" in rules else f"above {rules.get('above')}"
    if rules.get("below", math.inf) < math.inf:
        return f"must be {low} and below {_shown(rules['below'])}"
    if "most" in rules:
        return f"must be {low}, at most {_shown(rules['most'])}"
    return f"{low} is needed" if "least" in rules else f"must be {low}"


def _shown(value: float) -> str:
    if value == 1 << 63:
        return "2^63"
    return f"{value:g}" if isinstance(value, float) else str(value)
