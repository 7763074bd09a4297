"""The one stage runner: what a stage is, from its first unit to its clean end.

A stage says what it does in a `Plan`: its exact settings, its units, the worker that does a unit,
and how what the units wrote becomes the stage's result. `run_stage` does the rest, for all of them:

    refuse      what the cluster cannot schedule; nodes that see other files or have another model
                or other packages; other settings than the stage was begun with,
                also if it is finished
    prepare     room for the units' results, before the first of them
    lead        rounds of the stage's own, if it has any (k-means trains)
    units       those that are missing, round after round, each recorded when it is durable;
                rounds of which nobody knows how many there will be are `open_rounds`
    finish      one result of all units, and its digests in the manifest
    clean up    whatever is not part of the result, also what a killed run left
"""

import contextlib
import importlib.metadata
import platform
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from retomaton_dist.errors import DamagedStore
from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.runtime.progress import say, showing
from retomaton_dist.runtime.session import Session
from retomaton_dist.storage import files, records
from retomaton_dist.storage.canonical import Json, content_hash
from retomaton_dist.storage.checkpoint import Arrays
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.lock import check_held
from retomaton_dist.storage.manifest import Stage, check_config
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import StoreWriter
from retomaton_dist.storage.verified_files import problems_of

Payload = TypeVar("Payload")
Given = TypeVar("Given", contravariant=True)


@dataclass(frozen=True)
class Done:
    """What a unit, or a stage, has written (paths relative to the store), and facts about it.

    `counts` are numbers of a unit that progress adds up and shows. `arrays` are what units of open
    rounds leave to each other: their records hold them.
    """

    files: dict[str, FileDigest] = field(default_factory=dict)
    facts: Json = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)


class UnitWorker(Protocol[Given]):
    """Does units of one stage in an actor; made anew, from the same arguments, if that is lost."""

    def run(self, number: int, payload: Given) -> Done:
        """Do one unit; everything that it wrote is durable on return."""
        ...


class Plan(ABC, Generic[Payload]):
    """A stage before it runs: everything is checked and nothing is written.

    `config` is what can change the stage's bytes; the units' records are bound to it. `work` is
    how much each unit has to do, counted in `work_name`. With `merges`, finishing turns the units'
    files into the stage's own, and their records go. `undone_by` are the errors that show the
    stage's input to be unfit: it then counts as never begun. `loads` is the model that workers
    load, `reads` the stores that they read besides the one that they write.
    """

    work_name = "entries"
    gpu = False
    merges = False
    undone_by: tuple[type[Exception], ...] = ()
    loads: ModelSpec | None = None
    reads: Sequence[Path] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The stage, such as `cluster/kmeans`."""

    @property
    @abstractmethod
    def config(self) -> Json:
        """Whatever can change the stage's bytes."""

    @property
    @abstractmethod
    def units(self) -> Sequence[Payload]:
        """What each unit has to do."""

    @property
    @abstractmethod
    def work(self) -> Sequence[float]:
        """How much there is to do in each unit."""

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """Numbers of units that may be done together; a round waits for the one before."""
        return [range(len(self.units))]

    @property
    def config_hash(self) -> str:
        """What the units' completion records are bound to."""
        return content_hash(self.config)

    def check_begun(self, writer: StoreWriter) -> None:
        """Refuse other settings than those that the stage was begun with, if it ever was."""
        stage = writer.manifest.stages.get(self.name)
        if stage is not None:
            check_config(writer.path, self.name, stage, self.config)

    @abstractmethod
    def worker(self) -> Callable[[], UnitWorker[Payload]]:
        """What makes a worker; it is sent to actors."""

    def prepare(self) -> None:
        """Make room for what units write. Called as long as no unit is done."""

    def lead(self, session: Session) -> None:
        """Have rounds of the stage's own done. Called until the stage is finished."""

    @abstractmethod
    def finish(self, units: Sequence[Record]) -> Done:
        """Make the stage's result of what all units have written."""

    def up_to_date(self, stage: Stage) -> bool:  # noqa: ARG002 - the contract's
        """Whether a finished stage is what is asked for, or is to be finished once more."""
        return True

    def scratch(self) -> Sequence[Path]:
        """Files and folders that are no part of the result."""
        return ()

    def to_do(self, missing: set[int]) -> set[int]:
        """The missing units, and finished ones whose scratch they need and which is gone."""
        return missing

    def shown(self, summed: Mapping[str, float], seconds: float) -> Json:  # noqa: ARG002
        """What progress shows of the units' summed counts and the seconds that they took."""
        return {}


def run_stage(writer: StoreWriter, plan: Plan[Payload], session: Session) -> Stage:
    """Run a stage, or what is missing of it."""
    if plan.name not in writer.manifest.stages:
        # Before the stage counts as begun.
        _check_cluster(writer, plan, session)
    plan.check_begun(writer)
    versions = made_with(plan.gpu)
    _note_versions(writer.manifest.stages.get(plan.name), versions)
    units = len(plan.units)
    missing = writer.begin(plan.name, plan.config, units, versions, merges=plan.merges)
    try:
        _complete(writer, plan, missing, session)
    except plan.undone_by:
        writer.abandon(plan.name)
        raise
    finally:
        _clean_up(writer, plan)
    return writer.manifest.stages[plan.name]


def _check_cluster(writer: StoreWriter, plan: Plan[Payload], session: Session) -> None:
    """Refuse what the cluster cannot schedule, and nodes that cannot do the work."""
    crew = session.crew(gpu=plan.gpu)
    session.check_nodes(crew, writer.path.resolve(), plan.reads, plan.loads)


def _complete(
    writer: StoreWriter, plan: Plan[Payload], missing: set[int], session: Session
) -> None:
    stage = writer.manifest.stages[plan.name]
    if stage.done and plan.up_to_date(stage):
        return
    if stage.done:
        # Until it is finished once more the stage is not done: a kill in between shows.
        writer.forget(plan.name, None)
    else:
        if len(missing) == len(plan.units):
            plan.prepare()
        with files.fenced(ticket_for(writer, plan).check):
            plan.lead(session)
        _run_units(writer, plan, plan.to_do(missing), session)
        # A worker that was cut off may come back when the stage is done, or the next at work.
        writer.lock.renew_token()
    units = [writer.store.record(plan.name, unit) for unit in range(len(plan.units))]
    if plan.merges:
        _check_parts(writer, plan.name, units)
    done = plan.finish(units)
    writer.finish(plan.name, done.files, done.facts, merges=plan.merges)


def _check_parts(writer: StoreWriter, name: str, units: Sequence[Record]) -> None:
    """Refuse to merge what is no longer as its unit wrote it, and have that unit done anew."""
    owners = {writer.path / path: record.unit for record in units for path in record.files}
    listed = {writer.path / path: item for record in units for path, item in record.files.items()}
    problems = problems_of(f"{writer.path.resolve()} parts of {name}", listed)
    for path in problems:
        writer.forget(name, owners[path])
    for path, problem in problems.items():
        raise DamagedStore(f"{path}: {problem}; run the same command again: it is made anew")


def _run_units(
    writer: StoreWriter, plan: Plan[Payload], missing: set[int], session: Session
) -> None:
    if not missing:
        return
    _check_cluster(writer, plan, session)
    ticket = ticket_for(writer, plan)
    make, recorded = partial(Recorder, ticket.keep, plan.worker(), ticket.check), ticket.recorded()
    before = sum(plan.work) - sum(plan.work[unit] for unit in missing)
    mode, summed = session.settings.progress, dict[str, float]()
    with (
        showing(mode, plan.name, sum(plan.work), plan.work_name, before) as progress,
        session.pool(make, gpu=plan.gpu, on_ready=progress.begin) as pool,
    ):
        for group in plan.rounds:
            numbers = [unit for unit in group if unit in missing]
            units = [(number, plan.units[number]) for number in numbers]
            for (unit, _), counts in pool.run(units, numbers, recorded):
                for name, value in (counts or {}).items():
                    summed[name] = summed.get(name, 0) + value
                shown = plan.shown(summed, progress.seconds) if summed else {}
                progress.advance(plan.work[unit], shown)


@dataclass(frozen=True)
class Ticket:
    """What a worker's records are bound to: the run that it works for, and its stage as begun."""

    store: Path
    token: str
    stage: str
    config_hash: str
    attempt: int

    def check(self) -> None:
        """Refuse to write if the run was replaced, or has finished the stage."""
        check_held(self.store, self.token)

    def keep(self, number: int, _payload: object, done: Done, /) -> None:
        """Write the unit's record."""
        record = Record(number, self.config_hash, done.files, done.facts, self.attempt)
        records.write(self.store, self.stage, record)

    def recorded(self) -> Callable[[tuple[int, Any]], bool]:
        """What tells of a unit whether it was done since; some are done again though recorded."""
        before = records.finished(self.store, self.stage, self.attempt)
        return lambda unit: (
            unit[0] not in before and records.exists(self.store, self.stage, unit[0], self.attempt)
        )


def ticket_for(writer: StoreWriter, plan: Plan[Any]) -> Ticket:
    """The ticket of workers that do units of a stage that was begun."""
    attempt = writer.manifest.stages[plan.name].attempt
    store, token = writer.path.resolve(), writer.lock.token
    return Ticket(store, token, plan.name, plan.config_hash, attempt)


class Recorder(Generic[Payload]):
    """Declares units done, in the actor that has just made them durable."""

    def __init__(
        self,
        keep: Callable[[int, Payload, Done], None],
        make: Callable[[], UnitWorker[Payload]],
        fence: Callable[[], None],
    ) -> None:
        self._keep, self._worker, self._fence = keep, make(), fence

    def run(self, unit: tuple[int, Payload]) -> dict[str, float]:
        """Do the unit, then keep that it is done; return its counts."""
        with files.fenced(self._fence):
            done = self._worker.run(*unit)
            self._keep(*unit, done)
        return done.counts


@contextlib.contextmanager
def open_rounds(
    session: Session,
    make: Callable[[], UnitWorker[Payload]],
    has: Callable[[int, Payload], bool],
    keep: Callable[[int, Payload, Done], None],
    *,
    gpu: bool,
) -> Iterator[Callable[[Sequence[Payload]], None]]:
    """Yield what has a round of units done, by the session's workers, that are not done yet.

    The manifest knows nothing of them: `has` says which are done, `keep` declares one done.
    Workers write behind the fence that this thread is behind.
    """
    recorder = partial(Recorder, keep, make, files.current_fence())
    with session.pool(recorder, gpu=gpu) as pool:

        def run(units: Sequence[Payload]) -> None:
            missing: list[Any] = [unit for unit in enumerate(units) if not has(*unit)]
            numbers = [number for number, _ in missing]
            for _ in pool.run(missing, numbers, lambda unit: has(*unit)):
                pass

        yield run


def _clean_up(writer: StoreWriter, plan: Plan[Payload]) -> None:
    stage = writer.manifest.stages.get(plan.name)
    if stage is not None and not stage.done:
        return
    for path in plan.scratch():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


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


def chunk_units(shape: Shape, entries: int) -> list[range]:
    """Cut the datastore into units of whole chunks, about `entries` entries each."""
    per_unit = max(1, entries // shape.chunk_entries)
    starts = range(0, shape.chunks, per_unit)
    return [range(start, min(start + per_unit, shape.chunks)) for start in starts]


def chunk_work(shape: Shape, units: Sequence[range]) -> list[float]:
    """Entries of each unit of whole chunks."""
    return [float(last - first) for first, last in map(shape.entry_range, units)]
