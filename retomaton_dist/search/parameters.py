"""Search parameters by FAISS's own names: `nprobe=32,quantizer_efSearch=64`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.search.library import faiss, ivf_of

Parameters = Mapping[str, float]
NONE: Parameters = MappingProxyType({})
EXAMPLE = "nprobe=32,quantizer_efSearch=64"


def parse(text: str) -> dict[str, float]:
    """Read `name=number,name=number`."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            found[name.strip()] = _number(value)
        except ValueError:
            raise BadInput(
                f"--parameters {text}: {part!r} is not name=number; for example {EXAMPLE}"
            ) from None
    return found


def render(parameters: Parameters) -> str:
    """The text that `parse` reads."""
    return ",".join(f"{name}={value:g}" for name, value in parameters.items())


def apply(index: Any, parameters: Parameters, *, gpu: bool = False) -> None:
    """Set parameters on the index and on what is inside it; unknown ones are bad input.

    FAISS's ParameterSpace finds the IVF index below transforms, where setting an attribute of
    the outer index would do nothing at all.
    """
    space = faiss.GpuParameterSpace() if gpu else faiss.ParameterSpace()
    for name, value in parameters.items():
        try:
            space.set_index_parameter(index, name, value)
        except RuntimeError as error:
            raise BadInput(
                f"search parameter {name}={value:g}: this index has no such parameter; "
                f"it has {', '.join(_known(index)) or 'none'}"
            ) from error


def widest(cells: int, chosen: Parameters) -> int:
    """By what factor nprobe can grow until every cell is searched; 1 without cells."""
    return max(1, -(-cells // _nprobe(chosen)))


def widened(cells: int, chosen: Parameters, factor: int) -> dict[str, float]:
    """The parameter that makes an index search `factor` times as many cells."""
    return {"nprobe": min(cells, factor * _nprobe(chosen))} if cells else {}


def _nprobe(chosen: Parameters) -> int:
    # FAISS's own default is 1.
    return max(1, int(chosen.get("nprobe", 1)))


def tuned_name(index: Any) -> str | None:
    """The parameter that trades recall for time, or None if there is none to tune."""
    if ivf_of(index) is not None:
        return "nprobe"
    return "efSearch" if "efSearch" in _known(index) else None


def _known(index: Any) -> list[str]:
    space = faiss.ParameterSpace()
    space.initialize(index)
    ranges = space.parameter_ranges
    return [ranges.at(number).name for number in range(ranges.size())]


def _number(text: str) -> float:
    value = float(text)
    if value != value or abs(value) == float("inf"):
        raise ValueError(text)
    return int(value) if value == int(value) else value
