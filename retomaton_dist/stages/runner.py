"""What all stages share: doing the units that are missing, with actors, under the store's lock."""

import importlib.metadata
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from retomaton_dist.runtime.cluster import Session
from retomaton_dist.runtime.pool import Worker, run_units
from retomaton_dist.runtime.progress import showing
from storage.canonical import Json, content_hash
from storage.store import StoreWriter

Payload = TypeVar("Payload")


@dataclass(frozen=True)
class Plan(Generic[Payload]):
    """A stage before it runs: its exact settings, and its units with the work in each of them."""

    name: str
    config: Json
    units: Sequence[Payload]
    work: Sequence[float]
    work_name: str
    gpu: bool = False

    @property
    def config_hash(self) -> str:
        """What the units' completion records are bound to."""
        return content_hash(self.config)


def run_missing(
    writer: StoreWriter,
    plan: Plan[Payload],
    make: Callable[[], Worker[tuple[int, Payload], Json]],
    session: Session,
    describe: Callable[[Json, float], Json] = lambda _facts, _seconds: {},
) -> bool:
    """Do every unit of the stage that is not done; return False if the whole stage already was.

    Afterwards all units are done and the stage waits to be finished. `describe` turns the summed
    facts of this run's units, and its seconds, into what the progress shows.
    """
    missing = writer.begin(plan.name, plan.config, len(plan.units), made_with(plan.gpu))
    if writer.manifest.stages[plan.name].done:
        return False
    for _ in _done_units(plan, sorted(missing), make, session, describe):
        pass
    return True


def _done_units(
    plan: Plan[Payload],
    missing: Sequence[int],
    make: Callable[[], Worker[tuple[int, Payload], Json]],
    session: Session,
    describe: Callable[[Json, float], Json],
) -> Iterator[int]:
    if not missing:
        return
    before = sum(plan.work) - sum(plan.work[unit] for unit in missing)
    summed: Json = {}
    crew = session.crew(gpu=plan.gpu)
    mode, limit = session.settings.progress, session.settings.unit_timeout
    with (
        showing(mode, plan.name, sum(plan.work), plan.work_name, before) as progress,
    ):
        units = [(unit, plan.units[unit]) for unit in missing]
        for (unit, _), facts in run_units(crew, make, units, limit, progress.begin):
            summed = {name: summed.get(name, 0) + value for name, value in facts.items()}
            progress.advance(plan.work[unit], describe(summed, progress.seconds))
            yield unit


def made_with(gpu: bool) -> dict[str, str]:
    """Versions that a result depends on, and the kind of device."""
    packages = ("retomaton_dist", "numpy", "tokenizers", "torch", "transformers")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **versions, "device": "cuda" if gpu else "cpu"}
