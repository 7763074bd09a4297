"""What all stages share: doing the units that are missing, with actors, under the store's lock."""

import importlib.metadata
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from retomaton_dist.runtime.cluster import Session
from retomaton_dist.runtime.pool import Worker, run_units
from retomaton_dist.runtime.progress import say, showing
from storage.canonical import Json, content_hash
from storage.manifest import Stage
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

    def work_before(self, missing: Sequence[int]) -> float:
        """Work that earlier runs have done: all but that of the missing units."""
        return sum(self.work) - sum(self.work[unit] for unit in missing)


def begin(writer: StoreWriter, plan: Plan[Payload], session: Session) -> list[int] | None:
    """Enter the stage; return the units still to be done, or None if the whole stage is done.

    Other settings than those it was begun with are refused. So is, before a new stage counts as
    begun, what the cluster cannot schedule.
    """
    if plan.name not in writer.manifest.stages:
        session.crew(gpu=plan.gpu)
    _note_versions(writer.manifest.stages.get(plan.name), made_with(plan.gpu))
    missing = writer.begin(plan.name, plan.config, len(plan.units), made_with(plan.gpu))
    return None if writer.manifest.stages[plan.name].done else sorted(missing)


def run_missing(
    plan: Plan[Payload],
    missing: Sequence[int],
    make: Callable[[], Worker[tuple[int, Payload], Json]],
    session: Session,
    describe: Callable[[Json, float], Json] = lambda _facts, _seconds: {},
) -> None:
    """Do the missing units of a stage that was begun; it then waits to be finished.

    `describe` turns the summed facts of this run's units, and its seconds, into what the progress
    shows.
    """
    if not missing:
        return
    before = plan.work_before(missing)
    summed: Json = {}
    crew = session.crew(gpu=plan.gpu)
    mode, limit = session.settings.progress, session.settings.unit_timeout
    with showing(mode, plan.name, sum(plan.work), plan.work_name, before) as progress:
        units = [(unit, plan.units[unit]) for unit in missing]
        for (unit, _), facts in run_units(crew, make, units, limit, progress.begin, missing):
            summed = {name: summed.get(name, 0) + value for name, value in facts.items()}
            progress.advance(plan.work[unit], describe(summed, progress.seconds))


def _note_versions(stage: Stage | None, now: dict[str, str]) -> None:
    """Say so if a stage goes on with other versions than it was begun with."""
    if stage is None or stage.done:
        return
    changed = [f"{name} {stage.made_with.get(name)} -> {now[name]}" for name in now
               if stage.made_with.get(name) != now[name]]  # fmt: skip
    if changed:
        say(f"note: begun with other versions, digests may differ: {', '.join(changed)}")


def made_with(gpu: bool) -> dict[str, str]:
    """Versions that a result depends on, and the kind of device."""
    packages = ("retomaton_dist", "numpy", "tokenizers", "torch", "transformers")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **versions, "device": "cuda" if gpu else "cpu"}
