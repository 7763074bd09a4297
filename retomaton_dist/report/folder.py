"""The folder of an evaluation, as the report reads it."""

from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.report.rows import Row, read_row
from retomaton_dist.report.shapes import SHAPES, check_shape
from storage import canonical
from storage.canonical import Json

FILES = ("settings", "results", "analysis", "calibration")
# An evaluation without a walk has nothing to analyse.
OPTIONAL = ("analysis",)


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation left: its JSON files, and the points of its curves."""

    settings: Json
    results: Json
    analysis: Json
    calibration: Json
    rows: tuple[Row, ...]


def read_evaluation(folder: Path) -> Evaluation:
    """Read the JSON files of an evaluation; a missing or damaged one is named in one line."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder of an evaluation; give the folder of --out")
    read = {name: _read(folder / f"{name}.json") for name in FILES}
    for name, shape in SHAPES.items():
        check_shape(read[name], shape, f"{folder / name}.json")
    rows = tuple(
        read_row(item, f"{folder / 'results.json'}: rows[{i}]")
        for i, item in enumerate(read["results"]["rows"])
    )
    return Evaluation(**read, rows=rows)


def _read(path: Path) -> Json:
    try:
        return canonical.read(path, "evaluate again")
    except FileNotFoundError:
        if path.stem in OPTIONAL:
            return {}
        raise BadInput(f"{path} is missing; is this the folder of a finished evaluation?") from None
    except (OSError, RecursionError) as error:
        raise DamagedStore(f"{path} cannot be read ({error}); evaluate again") from error
