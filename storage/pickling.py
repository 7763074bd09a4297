"""How objects are sent to workers: as the fields they were made from."""

from dataclasses import fields
from typing import Any


class PicklesFieldsOnly:
    """A dataclass that is pickled without its cached properties: what it mapped is mapped anew."""

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]
