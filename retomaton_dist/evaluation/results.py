"""Measuring all methods from the scores of an evaluation, without a model or Ray."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from retomaton_dist.calibration.calibration import FACTS, Calibration
from retomaton_dist.calibration.thresholds import setup_from_facts
from retomaton_dist.engine.scores import Scores
from retomaton_dist.errors import BadInput, DamagedStore, NotAStore
from retomaton_dist.evaluation.calibration_pass import SWEEP
from retomaton_dist.evaluation.measure import measure_all
from retomaton_dist.evaluation.recalibration import recalibrate
from retomaton_dist.evaluation.retraining import retrain
from retomaton_dist.evaluation.run import SETTINGS, TOKENIZER
from retomaton_dist.evaluation.score import seconds_of
from retomaton_dist.evaluation.shortlist import Shortlist, ShortlistedPoint
from retomaton_dist.lm.tokenizer import decoder
from retomaton_dist.methods.constant import with_constants
from retomaton_dist.methods.method import Calibrated, CurvePoint
from retomaton_dist.methods.registry import choose_methods
from retomaton_dist.settings import ReportSettings
from retomaton_dist.storage import canonical, files
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.store import Store

RESULTS = "results.json"
_REMEDY = "run the same evaluation again: its scores are kept"
# What `settings.json` must have for results to be made anew.
_NEEDED = ("evaluate", "methods", "mode", "setup", "store", "text")
_COUNTED = ("caps", "documents", "positions", "temperatures", "words")
_PARTS = ("lm", "search", "walk", "rest", "total")
_NESTED = ("interval", "interval_per_word", "against", "against_knnlm", "seconds")
# Four digits of a temperature are shown.
SHOWN_DIGITS = 1e-3
HEAD = (
    "method", "states", "tau", "sigma", "FoSS", "perplexity", "95 % interval", "matched baseline",
    "against it", "against knnlm",
)  # fmt: skip


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
    def decode(self) -> Callable[[Iterable[int]], str]:
        """What makes text of the text's tokens, as the model's tokenizer would."""
        path = self.path / TOKENIZER
        try:
            files.check_plain(path)
            kept = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        return decoder(kept)

    @property
    def rows(self) -> list[Json]:
        """The rows of results: one per point of a curve. An infinite threshold is `math.inf`."""
        found = _read(self.path / RESULTS)
        _check_keys(found, ("rows",), self.path / RESULTS)
        return [
            {**row, **{name: _threshold(row.get(name)) for name in ("tau", "sigma")}}
            for row in found["rows"]
        ]

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
    points, words = evaluation.points(changed), evaluation.settings["text"]["words"]
    automata = evaluation.settings["setup"]["automata"]
    rows, listed = [], Shortlist(automata[0] if automata else "")
    for point, scores, measured in measure_all(points, words):
        seconds = seconds_of(text, point.pass_name) if live else None
        rows.append({**measured.row, "seconds": seconds})
        listed.offer(ShortlistedPoint(point, measured, scores))
    facts = evaluation.settings["text"]
    whole = seconds_of(text, SWEEP) if not live else None
    summary = {name: facts[name] for name in ("positions", "words", "documents", "caps")}
    found = {"rows": rows, "mode": evaluation.settings["mode"], "seconds": whole, **summary}
    found["reliability"] = listed.reliabilities()
    if replace(changed, retrain=0) == AS_CALIBRATED:
        found["recalibrated"] = _recalibrated(evaluation, listed)
    if changed.retrain:
        found["retrained"] = _retrained(evaluation, listed, changed.retrain)
    canonical.write(evaluation.path / RESULTS, found)
    return listed


def _recalibrated(evaluation: Evaluation, listed: Shortlist) -> list[Json]:
    """How much results depend on the calibration text; nothing if constants were given."""
    given = evaluation.settings["evaluate"]
    # Evaluations of before it had this name call it `temperature`.
    temperature = given.get("knn_temperature", given.get("temperature"))
    if not (evaluation.path / "calibration").exists() or given["lambda_"] or temperature:
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


def results_table(rows: Sequence[Json]) -> str:
    """One line per point of a curve."""
    lines = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Json) -> tuple[str, ...]:
    interval, against = row["interval"], row["against"]
    return (
        row["method"],
        row["clustering"] or "",
        *("" if row[name] is None else f"{row[name]:g}" for name in ("tau", "sigma")),
        f"{row['foss']:.3f}",
        f"{row['perplexity']:.2f}",
        f"{interval[0]:.2f} - {interval[1]:.2f}" if interval else "",
        row["baseline"] if against else "",
        _change(against),
        _change(row["against_knnlm"]),
    )


def _change(against: Json | None) -> str:
    return f"{against['ratio'] - 1:+.1%}" if against else ""


def _threshold(value: float | str | None) -> float | None:
    """A threshold as a number: JSON has no infinity, so that it is kept as a text."""
    return None if value is None else float(value)


def _flat(row: Json) -> Json:
    """A row without anything nested: every row has the same columns."""
    flat = {name: value for name, value in row.items() if name not in _NESTED}
    for name in ("interval", "interval_per_word", "against", "against_knnlm"):
        value = row[name]
        if name.startswith("against"):
            flat[name] = value and value["ratio"]
            value = value and value["interval"]
        flat[f"{name}_low"], flat[f"{name}_high"] = value or (None, None)
    for part in _PARTS:
        flat[f"seconds_{part}"] = (row["seconds"] or {}).get(part)
    return flat


def _read(path: Path) -> Json:
    """One of the evaluation's JSON files."""
    try:
        return canonical.read(path, f"delete it and {_REMEDY}")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> NotAStore:
    why = error.strerror if isinstance(error, OSError) else "it is not text"
    return NotAStore(f"cannot read {path}: {why}; {_REMEDY}")


def _check_keys(found: Mapping[str, Any], needed: Iterable[str], path: Path) -> None:
    missing = [name for name in needed if name not in found]
    if missing:
        raise DamagedStore(f"{path} has no {missing[0]!r}; {_REMEDY}")
