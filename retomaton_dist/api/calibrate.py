"""Calibrating a store: what methods need to know is found once and kept in it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from retomaton_dist.api.store import StoreReader
from retomaton_dist.evaluation.calibrate import calibrate_store
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import CalibrateSettings, WalkSettings, WorkerSettings
from retomaton_dist.settings.parsing import split_keywords, walk_settings


def calibrate(store: str | Path, **settings: Any) -> StoreReader:
    """Calibrate methods on held-out text, or do what is missing of it.

    Keywords are the flags of `retomaton calibrate`; `on` is needed. `rd.load` and
    `rd.evaluate(..., calibration=...)` use what is found.
    """
    groups = (CalibrateSettings, WalkSettings, WorkerSettings)
    chosen, walk, workers = split_keywords(groups, settings)
    given = {name: settings[name] for name in asdict(walk) if name in settings}
    return run_calibrate(store, chosen, walk_settings(chosen.preset, given), workers)


def run_calibrate(
    store: str | Path, settings: CalibrateSettings, walk: WalkSettings, workers: WorkerSettings
) -> StoreReader:
    """Run the stage `calibrate/NAME` over a store that has an automaton."""
    with Session(workers) as session:
        calibrate_store(store, settings, walk, session)
    return StoreReader.open(store)
