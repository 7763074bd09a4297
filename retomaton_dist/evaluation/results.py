"""Measuring all methods from the scores of an evaluation, without a model or Ray."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from retomaton_dist.analysis.bootstrap import Floats, Resampling
from retomaton_dist.calibration.calibration import FACTS, Calibration
from retomaton_dist.calibration.thresholds import setup_from_facts
from retomaton_dist.engine.scores import Scores
from retomaton_dist.errors import BadInput, DamagedStore, NotAStore
from retomaton_dist.evaluation.calibration_pass import SWEEP
from retomaton_dist.evaluation.duplicates import duplicate_documents, read_duplicates
from retomaton_dist.evaluation.ladder import Rungs
from retomaton_dist.evaluation.measure import Measurer
from retomaton_dist.evaluation.recalibration import recalibrate
from retomaton_dist.evaluation.retraining import retrain
from retomaton_dist.evaluation.run import SETTINGS
from retomaton_dist.evaluation.score import seconds_of
from retomaton_dist.evaluation.shortlist import Shortlist, ShortlistedPoint
from retomaton_dist.methods.constant import with_constants
from retomaton_dist.methods.method import Calibrated, CurvePoint
from retomaton_dist.methods.registry import choose_methods
from retomaton_dist.settings import ReportSettings
from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.store import Store

RESULTS = "results.json"
_REMEDY = "run the same evaluation again: its scores are kept"
# What `settings.json` must have for results to be made anew.
_NEEDED = ("evaluate", "methods", "mode", "setup", "store", "text")
_COUNTED = ("caps", "documents", "positions", "temperatures", "words")
_PARTS = ("lm", "search", "walk", "rest", "total")
# Four digits of a temperature are shown.
SHOWN_DIGITS = 1e-3
AS_CALIBRATED = ReportSettings()


@dataclass(frozen=True, repr=False)
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
        settings = _read(folder / SETTINGS)
        _check_keys(settings, _NEEDED, folder / SETTINGS)
        _check_keys(settings["text"], _COUNTED, folder / SETTINGS)
        return cls(folder, settings)

    def __repr__(self) -> str:
        text, methods = self.settings["text"], self.settings["methods"]
        return (
            f"Evaluation('{self.path}': {text['positions']:,} positions of {text['documents']:,} "
            f"documents, {len(methods)} methods, {self.settings['mode']})"
        )

    @property
    def text(self) -> Store:
        """The evaluated text and its scores."""
        try:
            return Store.open(self.path / "text")
        except NotAStore as error:
            raise NotAStore(
                f"{self.path / 'text'} does not hold the evaluated text and its scores; evaluate "
                f"again, or restore it"
            ) from error

    @property
    def calibration(self) -> Mapping[str, Calibrated]:
        """What was found for every method that was evaluated."""
        path = self.path / FACTS
        if not path.exists():
            raise NotAStore(f"{path} is missing; {_REMEDY}")
        try:
            found = Calibration.read(self.path).found
        except OSError as error:
            raise _unreadable(path, error) from error
        _check_keys(found, self.settings["methods"], path)
        return found

    @property
    def rows(self) -> list[Json]:
        """The rows of results: one per point of a curve. An infinite threshold is `math.inf`."""
        return [
            {**row, **{name: _threshold(row.get(name)) for name in ("tau", "sigma")}}
            for row in self._results("rows")
        ]

    @property
    def ladders(self) -> list[Json]:
        """What every source adds to those before it: with every search made, and without any."""
        return self._results("ladders")

    def _results(self, name: str) -> list[Json]:
        kept = _read(self.path / RESULTS)
        _check_keys(kept, (name,), self.path / RESULTS)
        found: list[Json] = kept[name]
        return found

    def frame(self) -> pa.Table:
        """The rows as an Arrow table (`.to_pandas()` makes a data frame of it).

        Intervals become columns such as `interval_low`; ratios `against` with an interval of
        their own; times `seconds_total`, ...
        """
        return pa.Table.from_pylist([_flat(row) for row in self.rows])

    def points(
        self, changed: ReportSettings = AS_CALIBRATED
    ) -> Iterator[tuple[CurvePoint, Scores]]:
        """Every point with the scores that it is measured from."""
        changed = _scored_for(changed, self.temperatures)
        found = self.calibration
        setup = setup_from_facts(self.settings["setup"])
        live, text = self.settings["mode"] == "live", self.text
        opened: dict[str, Scores] = {}
        for method in choose_methods(",".join(self.settings["methods"])):
            calibrated = _changed(found[method.name], changed)
            for point in method.points(setup, calibrated):
                name = point.pass_name if live else SWEEP
                if name not in opened:
                    opened = {name: Scores.open(text, name)}
                yield point, opened[name]

    def measurer(self, scores: Scores) -> Measurer:
        """What measures its points, all of which have these documents."""
        corpus, words = self.text.corpus(), self.settings["text"]["words"]
        duplicates = duplicate_documents(read_duplicates(self.path))
        return Measurer(scores.document, words, duplicates, lambda number: corpus[number].name)

    @property
    def temperatures(self) -> list[float]:
        """Temperatures that the text was scored for."""
        found: list[float] = self.settings["text"]["temperatures"]
        return found


def measure_evaluation(
    evaluation: Evaluation, changed: ReportSettings = AS_CALIBRATED
) -> Shortlist:
    """Write results.json; return the points that a closer look is worth."""
    text, live = evaluation.text, evaluation.settings["mode"] == "live"
    facts = evaluation.settings["text"]
    main = next(iter(evaluation.settings["setup"]["automata"]), "")
    rows, listed, rungs = [], Shortlist(main), Rungs(main)
    measurer: Measurer | None = None
    for point, scores in evaluation.points(changed):
        measurer = measurer or evaluation.measurer(scores)
        measured = measurer.measure(point, scores)
        seconds = seconds_of(text, point.pass_name) if live else None
        rows.append({**measured.row, "seconds": seconds})
        listed.offer(ShortlistedPoint(point, measured, scores))
        rungs.offer(measured)
    found = {
        **{name: facts[name] for name in ("positions", "words", "documents", "caps")},
        "rows": rows,
        "ladders": rungs.describe(measurer) if measurer else [],
        "mode": evaluation.settings["mode"],
        "seconds": None if live else seconds_of(text, SWEEP),
        "reliability": listed.reliabilities(),
    }
    if replace(changed, retrain=0) == AS_CALIBRATED:
        found["recalibrated"] = _recalibrated(evaluation, listed)
    if changed.retrain:
        found["retrained"] = _retrained(evaluation, listed, changed.retrain)
    canonical.write(evaluation.path / RESULTS, found)
    return listed


@dataclass(frozen=True)
class MeasuredPoint:
    """A row of results with its total log-probability by document."""

    row: Json
    totals: Floats
    resampling: Resampling

    def ratio_to(self, other: "MeasuredPoint") -> tuple[float, float] | None:
        """Interval of the perplexity's ratio to that of a point over the same documents."""
        return self.resampling.ratio_of_totals(self.totals, other.totals)


def measured_points(evaluation: Evaluation) -> list[MeasuredPoint]:
    """All points as calibrated, measured anew from the scores."""
    measurer: Measurer | None = None
    points = []
    for point, scores in evaluation.points():
        measurer = measurer or evaluation.measurer(scores)
        measured, resampling = measurer.measure(point, scores), measurer.resampling
        totals = resampling.totals(measured.log_p)
        points.append(MeasuredPoint(measured.row, totals, resampling))
    return points


def _recalibrated(evaluation: Evaluation, listed: Shortlist) -> list[Json]:
    """How much results depend on the calibration text; nothing if constants were given."""
    given = evaluation.settings["evaluate"]
    fitted = not (given.get("lambda_") or given.get("knn_temperature"))
    if not (fitted and (evaluation.path / "calibration").exists()):
        return []
    calibration = Scores.open(Store.open(evaluation.path / "calibration"), SWEEP)
    return recalibrate(listed.with_baselines(), calibration)


def _retrained(evaluation: Evaluation, listed: Shortlist, times: int) -> list[Json]:
    """How much learned mixing depends on the calibration text and on its seed."""
    folder = evaluation.path / "calibration"
    if not folder.exists():
        raise BadInput(
            f"--retrain: {evaluation.path} has no calibration text of its own to learn from; "
            f"evaluate with --calibrate-on"
        )
    calibration = Scores.open(Store.open(folder), SWEEP)
    _check_keys(evaluation.settings, ("calibrated_for",), evaluation.path / SETTINGS)
    setup = setup_from_facts(evaluation.settings["calibrated_for"])
    return retrain(listed.with_baselines(), calibration, setup, evaluation.calibration, times)


def _scored_for(changed: ReportSettings, temperatures: list[float]) -> ReportSettings:
    """The same with a temperature that the text was scored for, to the digits that are shown."""
    if changed.knn_temperature is None:
        return changed
    for degree in temperatures:
        if math.isclose(degree, changed.knn_temperature, rel_tol=SHOWN_DIGITS):
            return replace(changed, knn_temperature=degree)
    grid = ", ".join(f"{degree:.4g}" for degree in temperatures)
    raise BadInput(
        f"--knn-temperature {changed.knn_temperature:g}: the text was scored for {grid}; choose one"
    )


def _changed(calibrated: Calibrated, changed: ReportSettings) -> Calibrated:
    """What calibration found, with other constants; networks keep theirs."""
    if calibrated.arrays:
        return calibrated
    given = {
        "lambda": changed.lambda_,
        "temperature": changed.knn_temperature,
        "pointer_weight": changed.pointer_weight,
    }
    return replace(calibrated, facts=with_constants(calibrated.facts, given))


def _threshold(value: float | str | None) -> float | None:
    """A threshold as a number: JSON has no infinity, so that it is kept as a text."""
    return None if value is None else float(value)


def _flat(row: Json) -> Json:
    """A row without anything nested: every row has the same columns."""
    new = row["without_duplicates"] or {"perplexity": None, "against": None}
    worse = row["worse_than_lm"]
    ratios = {
        "against": row["against"],
        "against_knnlm": row["against_knnlm"],
        "against_without_duplicates": new["against"],
    }
    intervals = {"interval": row["interval"]}
    intervals |= {name: known and known["interval"] for name, known in ratios.items()}
    nested = {*ratios, *intervals, "seconds", "without_duplicates", "worse_than_lm"}
    flat = {name: value for name, value in row.items() if name not in nested}
    flat |= {name: known and known["ratio"] for name, known in ratios.items()}
    for name, bounds in intervals.items():
        flat[f"{name}_low"], flat[f"{name}_high"] = bounds or (None, None)
    flat |= {"perplexity_without_duplicates": new["perplexity"]}
    flat |= {f"worse_than_lm_{name}": value for name, value in worse.items()}
    return flat | {f"seconds_{part}": (row["seconds"] or {}).get(part) for part in _PARTS}


def _read(path: Path) -> Json:
    """One of the evaluation's JSON files."""
    try:
        return canonical.read(path, f"delete it and {_REMEDY}")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> NotAStore:
    return NotAStore(f"cannot read {path}: {error.strerror}; {_REMEDY}")


def _check_keys(found: Mapping[str, Any], needed: Iterable[str], path: Path) -> None:
    missing = [name for name in needed if name not in found]
    if missing:
        raise DamagedStore(f"{path} has no {missing[0]!r}; {_REMEDY}")
