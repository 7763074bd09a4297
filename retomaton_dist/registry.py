"""Named things of one kind, such as codecs: each in a module of its own, imported when first used.

To add one, write its module and give it a line in its registry; flags, messages and help follow.
"""

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from retomaton_dist.errors import BadInput

Item = TypeVar("Item")
# Longer names are no slips of the pen, and comparing them would take minutes.
LONGEST = 100


class Registered(NamedTuple):
    """Where a thing is defined (`package.module:name`), and a few words about it for help."""

    place: str
    help: str = ""


@dataclass(frozen=True)
class Registry(Generic[Item]):
    """Things by name, in the order in which they are offered; `kind` is what messages call one."""

    kind: str
    entries: Mapping[str, Registered]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> Item:
        """Import the thing of this name; another name is refused with the nearest known one."""
        if name not in self.entries:
            raise BadInput(
                f"no {self.kind} {name!r}; did you mean {nearest(name, self.entries, 0)!r}?"
            )
        item: Item = load(self.entries[name].place)
        return item

    @property
    def names(self) -> tuple[str, ...]:
        """All names: the choices of a setting."""
        return tuple(self.entries)

    @property
    def help(self) -> str:
        """A line about all of them."""
        items = self.entries.items()
        return "; ".join(f"{name}: {entry.help}" if entry.help else name for name, entry in items)


def load(place: str) -> Any:
    """What `package.module:name` stands for."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that is most like this one, if any is like it at all."""
    found = difflib.get_close_matches(name[:LONGEST], list(known), n=1, cutoff=likeness)
    return found[0] if found else None
