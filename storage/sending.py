"""Objects that are sent to other processes as what they were made from."""

from dataclasses import fields
from typing import Any


class WithoutCaches:
    """A dataclass that is pickled without what it has mapped or loaded: that is done anew there."""

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]
