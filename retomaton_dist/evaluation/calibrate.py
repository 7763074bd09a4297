"""The stage `calibrate/NAME`: constants, networks and thresholds of all methods, kept in the store.

The text is tokenised and scored in `calibrations/NAME/text`, a store of its own that goes when the
stage is finished: a killed run goes on where it was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from retomaton_dist.calibration.calibration import (
    ARRAYS,
    FACTS,
    Calibration,
    folder_of,
    read_known,
)
from retomaton_dist.calibration.thresholds import tau_for
from retomaton_dist.evaluation.calibration_pass import calibration_pass, coarse_setup
from retomaton_dist.evaluation.prepare import Prepared, prepare
from retomaton_dist.evaluation.text import TextPlan, digests_of, plan_text
from retomaton_dist.methods.method import Calibrated
from retomaton_dist.runtime.progress import counted, say
from retomaton_dist.runtime.session import Session
from retomaton_dist.runtime.threads import torch_limited
from retomaton_dist.settings import CalibrateSettings, WalkSettings
from retomaton_dist.stages.runner import Done, Plan, UnitWorker, run_stage
from retomaton_dist.storage import files
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.manifest import Stage
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, writing


@dataclass(frozen=True)
class CalibratePlan(Plan[None]):
    """A text, what methods are calibrated on it, and the name that this is kept under."""

    prepared: Prepared
    text: TextPlan
    settings: CalibrateSettings
    threads: int

    @property
    def name(self) -> str:
        """After the calibration."""
        return f"calibrate/{self.settings.name}"

    @cached_property
    def config(self) -> Json:
        """The text, the store's parts, the methods and the walk."""
        prepared, retrieval = self.prepared, self.prepared.retrieval
        asked = prepared.settings
        return {
            "text": self.text.planned.config,
            **prepared.inputs(),
            "methods": [method.name for method in prepared.methods],
            "targets": list(self.settings.targets),
            "positions": asked.calibration_positions,
            "batch_tokens": asked.batch_tokens,
            "device": prepared.device,
            "walk": asdict(retrieval.settings),
            "search": retrieval.parameters,
            "threads": self.threads,
        }

    @property
    def units(self) -> Sequence[None]:
        """None: the text's own stages share out the work."""
        return ()

    @property
    def work(self) -> Sequence[float]:
        """None."""
        return ()

    @property
    def folder(self) -> Path:
        """Where the calibration lies."""
        return folder_of(self.prepared.store.path, self.settings.name)

    def worker(self) -> Callable[[], UnitWorker[None]]:
        """There is no unit to work on."""
        raise AssertionError("a calibration has no units")

    def lead(self, session: Session) -> None:
        """Score the text, calibrate, and write what was found."""
        made = calibrate_on_text(
            self.prepared, self.text, self.folder / "text", session, self.settings.targets
        )
        made.write(self.folder)

    def finish(self, units: Sequence[Record]) -> Done:  # noqa: ARG002 - there are none
        """Take the digests of what was written, and say in short what it is."""
        kept = Calibration.read(self.folder, self.settings.name)
        positions = Store.open(self.folder / "text").stage("score").facts["positions"]
        assert kept.thresholds is not None
        facts = {
            "methods": [method.name for method in self.prepared.methods],
            "automata": list(kept.automata),
            "positions": positions,
            "sources": list(kept.sources.values()),
            "taus": {
                name: {f"{target:g}": str(tau_for(target, curve.taus, curve.foss))
                       for target in kept.targets}
                for name, curve in kept.thresholds.curves.items()
            },
        }  # fmt: skip
        paths = [self.folder / name for name in (FACTS, ARRAYS)]
        root = self.prepared.store.path
        written = {path.relative_to(root).as_posix(): files.digest_of(path) for path in paths}
        return Done(written, facts)

    def scratch(self) -> Sequence[Path]:
        """The text and its scores."""
        return (self.folder / "text",)


def calibrate_store(
    store: str | Path, settings: CalibrateSettings, walk: WalkSettings, session: Session
) -> Stage:
    """Run the stage, or what is missing of it; everything is checked before anything is written."""
    prepared = prepare(store, settings.as_evaluation(), walk, session)
    folder = folder_of(prepared.store.path, settings.name) / "text"
    text = plan_text("--on", settings.on, folder, prepared)
    plan = CalibratePlan(prepared, text, settings, session.settings.threads)
    with writing(prepared.store.path) as writer:
        stage = run_stage(writer, plan, session)
    say_edges(Calibration.read(plan.folder, settings.name))
    return stage


def calibrate_on_text(
    prepared: Prepared,
    text: TextPlan,
    folder: Path,
    session: Session,
    targets: tuple[float, ...],
    known: Path | None = None,
) -> Calibration:
    """Score held-out text into `folder`, and calibrate all methods on it.

    Where `known` holds what an earlier run found from the same scores, that is taken instead.
    """
    scored = calibration_pass(prepared, text, folder, session)
    inputs = {"scores": scored.store.stage("score").digest, **_asked(prepared)}
    before = read_known(known, inputs) if known is not None else None
    if before is not None and before.thresholds is not None:
        return before
    with torch_limited(session.settings.threads):
        scores = scored.scores
        fitted = counted(prepared.methods, session.settings.progress, "fit", "methods")
        found = {method.name: method.calibrate(scores, scored.setup) for method in fitted}
    return replace(
        calibration_with(prepared, found, inputs),
        thresholds=scored.thresholds(restarts=prepared.restarts_by_suffix),
        targets=targets,
        sources=digests_of(text),
        tried=scored.tried(found),
    )


def calibrate_as_given(prepared: Prepared) -> Calibration:
    """Constants as they are given: there is no held-out text to find them on."""
    setup = coarse_setup(prepared)
    found = {method.name: method.calibrate(None, setup) for method in prepared.methods}
    return calibration_with(prepared, found, {"scores": None, **_asked(prepared)})


def calibration_with(
    prepared: Prepared, found: Mapping[str, Calibrated], inputs: Json
) -> Calibration:
    """What was found, beside what it was found with."""
    retrieval = prepared.retrieval
    return Calibration(
        "",
        found,
        None,
        (),
        prepared.automata,
        retrieval.settings,
        retrieval.index,
        retrieval.suffixes,
        retrieval.parameters,
        inputs=inputs,
    )


def say_edges(calibration: Calibration) -> None:
    """Tell of constants that are the smallest or largest tried: better ones may lie beyond."""
    for line, places in calibration.tried.get("edges", {}).items():
        say(f"note: {line}: {', '.join(places)}")


def _asked(prepared: Prepared) -> Json:
    settings = prepared.settings
    return {
        "methods": [method.name for method in prepared.methods],
        "lambda": settings.lambda_,
        "temperature": settings.knn_temperature,
        "pointer_weight": prepared.retrieval.settings.pointer_weight,
    }
