"""The stage `compile/NAME`: entries in the order of (state, value, entry), ready to be mapped.

Four rounds of units, each over what the round before has finished:

    check    what is read of the datastore, the clustering and the codec: are its bytes sound?
    order    states first..last-1: gather and sort entries   -> entries, values, states, codes
    invert   entries first..last-1: find their slots         -> slots
    link     slots first..last-1: follow their pointers      -> nexts

A unit holds about `unit_entries` entries in memory, whatever N, its largest state and the number of
states are.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from retomaton_dist.automaton.pieces import runs_within
from retomaton_dist.codec.training import choose_code_size
from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import CompileSettings
from retomaton_dist.stages import codec as encoding
from retomaton_dist.stages.codec import CodecPlan
from retomaton_dist.stages.compile_worker import ROUNDS, Blueprint, CompileUnit, CompileWorker
from retomaton_dist.stages.runner import Done, Plan, run_stage
from retomaton_dist.storage import automaton, preallocated
from retomaton_dist.storage.automaton import MOST_STATES, AutomatonShape
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.codec import CodecFiles
from retomaton_dist.storage.manifest import Stage
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, StoreWriter

# Checking needs no memory: few, large units.
CHECK_ENTRIES = 1 << 21


def check_settings(settings: CompileSettings, dimension: int) -> None:
    """Refuse codes that keys of this width cannot have."""
    if settings.codec == "pq":
        choose_code_size(dimension, settings.code_size)


def compile_automaton(writer: StoreWriter, settings: CompileSettings, session: Session) -> Stage:
    """Run the codec's stage and this one, or what is missing of them."""
    store = Store.open(writer.path.resolve())
    _check_own(store, settings.states)
    coded = None
    if settings.codec == "pq":
        shape, threads = store.shape(), session.settings.threads
        recipe = encoding.resolve(shape.entries, shape.dimension, settings.code_size)
        coded = CodecPlan(store, recipe, threads)
        run_stage(writer, coded, session)
    return run_stage(writer, plan_compile(Store.open(store.path), settings, coded), session)


def plan_compile(store: Store, settings: CompileSettings, coded: CodecPlan | None) -> "CompilePlan":
    """Lay out an automaton whose clustering and codec are finished."""
    states = store.stage(f"cluster/{settings.states}").facts["states"]
    if states > MOST_STATES:
        raise BadInput(f"--states {settings.states}: {states:,} states, {MOST_STATES:,} at most")
    files = coded.files if coded else None
    blueprint = Blueprint(
        store,
        settings.automaton,
        store.states(settings.states),
        _shape(store, states, files),
        files,
        settings.unit_entries,
    )
    return CompilePlan(blueprint, settings.states, coded.name if coded else None)


def _check_own(store: Store, name: str) -> None:
    if store.stage(f"cluster/{name}").config.get("datastore") != store.stage("extract").digest:
        raise BadInput(
            f"{store.path}: clustering {name} was made from another datastore; cluster this one"
        )


def _shape(store: Store, states: int, codec: CodecFiles | None) -> AutomatonShape:
    shape = store.shape()
    return AutomatonShape(
        entries=shape.entries,
        states=states,
        dimension=shape.dimension,
        codec="pq" if codec else "fp16",
        code_size=codec.code_size if codec else 0,
        cells=codec.cells if codec else 0,
    )


@dataclass(frozen=True)
class CompilePlan(Plan[CompileUnit]):
    """An automaton before it is compiled; `codec` is the stage of its codes, None for fp16."""

    blueprint: Blueprint
    clustering: str
    codec: str | None

    work_name = "steps"
    merges = True

    @property
    def name(self) -> str:
        """After the automaton."""
        return f"compile/{self.blueprint.name}"

    @cached_property
    def config(self) -> Json:
        """What is compiled, by its contents, and in what pieces."""
        stage = self.blueprint.store.stage
        return {
            "datastore": stage("extract").digest,
            "clustering": stage(f"cluster/{self.clustering}").digest,
            "states": self.clustering,
            "codec": self.blueprint.shape.codec,
            "codes": stage(self.codec).digest if self.codec else None,
            "unit_entries": self.blueprint.unit_entries,
        }

    @cached_property
    def units(self) -> list[CompileUnit]:
        """All units, round by round."""
        blueprint = self.blueprint
        entries, size = blueprint.shape.entries, blueprint.unit_entries
        checks = [
            CompileUnit("check", 0, entries, entries, stage=stage)
            for stage in blueprint.read_files()
        ]
        checks += _cut("check", entries, CHECK_ENTRIES)
        orders = [CompileUnit("order", *run) for run in runs_within(blueprint.sizes(), size)]
        return [*checks, *orders, *_cut("invert", entries, size), *_cut("link", entries, size)]

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        return [float(unit.entries) for unit in self.units]

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """Check, order, invert, link."""
        return [
            [number for number, unit in enumerate(self.units) if unit.kind == kind]
            for kind in ROUNDS
        ]

    def worker(self) -> Callable[[], CompileWorker]:
        """Fills ranges of the columns."""
        return partial(CompileWorker, self.blueprint)

    def prepare(self) -> None:
        """Make the columns that units fill."""
        shutil.rmtree(self.blueprint.folder, ignore_errors=True)
        preallocated.preallocate(self.blueprint.parts, self.blueprint.filled())

    def finish(self, units: Sequence[Record]) -> Done:  # noqa: ARG002 - columns are filled
        """Write the small columns, move the filled ones into place, and describe them."""
        blueprint = self.blueprint
        listed = blueprint.write_small()
        listed |= preallocated.finish(blueprint.parts, blueprint.folder, blueprint.filled())
        inside = blueprint.folder.relative_to(blueprint.store.path).as_posix()
        files = {f"{inside}/{name}.arrow": digest for name, digest in listed.items()}
        description = automaton.write_description(blueprint.folder, blueprint.shape, listed)
        files[f"{inside}/{automaton.DESCRIPTION}"] = description
        total = sum(digest.bytes for digest in listed.values())
        per_entry = total / blueprint.shape.entries
        return Done(files, {**blueprint.shape.__dict__, "bytes_per_entry": per_entry})

    def scratch(self) -> Sequence[Path]:
        """Where columns lie while they are filled."""
        return (self.blueprint.parts,)


def _cut(kind: str, entries: int, size: int) -> list[CompileUnit]:
    bounds = ((first, min(first + size, entries)) for first in range(0, entries, size))
    return [CompileUnit(kind, first, last, last - first) for first, last in bounds]
