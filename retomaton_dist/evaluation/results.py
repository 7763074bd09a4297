"""Measuring all methods from the scores of an evaluation, without a model or Ray."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from retomaton_dist.errors import BadInput, NotAStore
from retomaton_dist.evaluation import calibration as calibrating
from retomaton_dist.evaluation.choices import check_weight
from retomaton_dist.evaluation.measure import Measured, measure_all
from retomaton_dist.evaluation.run import SETTINGS, SWEEP
from retomaton_dist.evaluation.scores import Scores
from retomaton_dist.methods.method import Calibrated, CurvePoint, Setup
from retomaton_dist.methods.registry import choose_methods
from retomaton_dist.stages.score import seconds_of
from storage import canonical
from storage.canonical import Json
from storage.store import Store

RESULTS = "results.json"
_REMEDY = "delete it and run the same evaluation again: its scores are kept"
# The walk that runs and sequences are shown for saves about so many searches.
SHOWN_FOSS = 0.5


@dataclass(frozen=True)
class Overrides:
    """Constants to use instead of the calibrated ones; None: as they are."""

    weight: float | None = None
    temperature: float | None = None
    pointer_weight: float | None = None


NOTHING = Overrides()


@dataclass(frozen=True)
class Evaluation:
    """An evaluation's folder, scored and calibrated."""

    path: Path
    settings: Json

    @classmethod
    def open(cls, path: str | Path) -> "Evaluation":
        """Open a folder that `retomaton eval` has made."""
        folder = Path(path)
        if not (folder / SETTINGS).exists():
            raise NotAStore(
                f"{folder} is no finished evaluation: it has no {SETTINGS}; `retomaton eval` makes "
                f"one"
            )
        return cls(folder, canonical.read(folder / SETTINGS, _REMEDY))

    @property
    def text(self) -> Store:
        """The evaluated text and its scores."""
        return Store.open(self.path / "text")

    @property
    def rows(self) -> list[Json]:
        """The rows of results: one per point of a curve."""
        found: list[Json] = canonical.read(self.path / RESULTS, _REMEDY)["rows"]
        return found

    def points(self, overrides: Overrides = NOTHING) -> Iterator[tuple[CurvePoint, Scores]]:
        """Every point with the scores that it is measured from."""
        check_overrides(overrides, self.temperatures)
        found = calibrating.read(self.path)
        assert found is not None, "settings are written after calibration"
        taus = self.settings["setup"]["taus"]
        setup = Setup(
            tuple(self.settings["setup"]["automata"]),
            {name: tuple(map(float, listed)) for name, listed in taus.items()},
        )
        live, text = self.settings["mode"] == "live", self.text
        opened: dict[str, Scores] = {}
        for method in choose_methods(",".join(self.settings["methods"])):
            calibrated = overridden(found[method.name], overrides)
            for point in method.points(setup, calibrated):
                name = point.pass_name if live else SWEEP
                if name not in opened:
                    opened = {name: Scores.open(text, name)}
                yield point, opened[name]

    @property
    def temperatures(self) -> list[float]:
        """Temperatures that the text was scored for."""
        found: list[float] = self.settings["text"]["temperatures"]
        return found


def measure_evaluation(
    evaluation: Evaluation, overrides: Overrides = NOTHING
) -> tuple[Measured | None, Scores | None]:
    """Write results.json; return the point that a closer look is worth, and its scores."""
    text, live = evaluation.text, evaluation.settings["mode"] == "live"
    points, words = evaluation.points(overrides), evaluation.settings["text"]["words"]
    rows, shown = [], None
    for point, scores, measured in measure_all(points, words):
        seconds = seconds_of(text, point.pass_name) if live else None
        rows.append({**measured.row, "seconds": seconds})
        shown = _nearer(shown, (measured, scores), evaluation.settings["setup"]["automata"][0])
    facts = evaluation.settings["text"]
    whole = seconds_of(text, SWEEP) if not live else None
    summary = {name: facts[name] for name in ("positions", "words", "documents", "caps")}
    found = {"rows": rows, "mode": evaluation.settings["mode"], "seconds": whole, **summary}
    canonical.write(evaluation.path / RESULTS, found)
    return shown if shown else (None, None)


def check_overrides(overrides: Overrides, temperatures: list[float]) -> None:
    """Refuse constants that make no sense, and temperatures that the text was not scored for."""
    if overrides.temperature is not None and overrides.temperature not in temperatures:
        grid = ", ".join(f"{degree:g}" for degree in temperatures)
        raise BadInput(
            f"--temperature {overrides.temperature:g}: the text was scored for {grid}; choose one"
        )
    if overrides.weight is not None:
        check_weight(overrides.weight)
    if overrides.pointer_weight is not None and not 0 < overrides.pointer_weight < math.inf:
        raise BadInput(f"--pointer-weight {overrides.pointer_weight:g}: must be above 0")


def overridden(calibrated: Calibrated, overrides: Overrides) -> Calibrated:
    """What calibration found, with other constants; networks keep theirs."""
    if calibrated.arrays:
        return calibrated
    given = {
        "lambda": overrides.weight,
        "temperature": overrides.temperature,
        "pointer_weight": overrides.pointer_weight,
    }
    return replace(calibrated, facts=_replaced(calibrated.facts, given))


def _replaced(facts: Json, given: Json) -> Json:
    changed: Json = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            changed[name] = _replaced(value, given)
        else:
            changed[name] = value if given.get(name) is None else given[name]
    return changed


def _nearer(
    best: tuple[Measured, Scores] | None, found: tuple[Measured, Scores], automaton: str
) -> tuple[Measured, Scores] | None:
    """Of the plain walks of the main automaton, the one whose FoSS is nearest to that shown."""
    row = found[0].row
    if row["method"] != "retomaton" or row["clustering"] != automaton:
        return best
    distance = abs(row["foss"] - SHOWN_FOSS)
    return found if best is None or distance < abs(best[0].row["foss"] - SHOWN_FOSS) else best
