"""The stage `compile/NAME`: entries in the order of (state, value, entry), ready to be mapped.

Three rounds of units, each over columns that the round before has finished:

    order    states first..last-1: gather their entries and sort them     -> entries, offsets
    invert   entries first..last-1: find their slots                      -> slots
    fill     slots first..last-1: take values, pointers and codes along   -> all other columns

A unit holds about `unit_entries` entries in memory (or its largest state), whatever N is.
"""

import re
import shutil
from functools import partial

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.settings import CompileSettings
from retomaton_dist.stages import codec as encoding
from retomaton_dist.stages.compile_worker import ROUNDS, Blueprint, CompileWorker, Share
from retomaton_dist.stages.rounds import run_rounds
from retomaton_dist.stages.runner import Plan, begin
from storage import automaton, preallocated
from storage.automaton import AutomatonShape
from storage.canonical import Json
from storage.codec import CodecFiles
from storage.files import FileDigest
from storage.manifest import Stage
from storage.store import Store, StoreWriter

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def automaton_name(settings: CompileSettings) -> str:
    """Name of the automaton: as given, or that of its clustering."""
    name = settings.name or settings.states
    if not _NAME.fullmatch(name):
        raise BadInput(f"--name {name}: use letters, digits, '.', '_' and '-'")
    return name


def compile_automaton(writer: StoreWriter, settings: CompileSettings, session: Session) -> Stage:
    """Run the codec's stage and this one, or what is missing of them."""
    if settings.unit_entries < 1:
        raise BadInput(f"--unit-entries {settings.unit_entries}: at least 1 is needed")
    stage = f"compile/{automaton_name(settings)}"
    store = Store.open(writer.path.resolve())
    clustering = store.stage(f"cluster/{settings.states}")
    _check_own(store, settings.states, clustering)
    coded = _codec(writer, store, settings, session)
    shape = _shape(store, settings, coded)
    plan = _plan(store, stage, settings, shape, clustering, coded)
    missing = begin(writer, plan, session)
    if missing is not None:
        blueprint = Blueprint(
            store,
            automaton_name(settings),
            store.states(settings.states),
            shape,
            _codec_files(store, shape),
        )
        _run(writer, plan, missing, blueprint, session)
    return writer.manifest.stages[stage]


def _check_own(store: Store, name: str, clustering: Stage) -> None:
    own = store.stage("extract").digest
    if clustering.config.get("datastore") != own:
        raise BadInput(
            f"{store.path}: clustering {name} was made from another datastore; cluster this one"
        )


def _codec(
    writer: StoreWriter, store: Store, settings: CompileSettings, session: Session
) -> Stage | None:
    if settings.codec == "fp16":
        return None
    facts = store.stage("extract").facts
    recipe = encoding.resolve(facts["entries"], facts["dimension"], settings.code_size)
    return encoding.encode(writer, recipe, session)


def _shape(store: Store, settings: CompileSettings, coded: Stage | None) -> AutomatonShape:
    facts = store.stage("extract").facts
    return AutomatonShape(
        entries=facts["entries"],
        states=store.stage(f"cluster/{settings.states}").facts["states"],
        dimension=facts["dimension"],
        codec=settings.codec,
        code_size=coded.facts["code_size"] if coded else 0,
        cells=coded.facts["cells"] if coded else 0,
    )


def _codec_files(store: Store, shape: AutomatonShape) -> CodecFiles | None:
    if shape.codec == "fp16":
        return None
    folder = store.path / "codecs" / f"pq{shape.code_size}"
    return CodecFiles(folder, shape.entries, shape.dimension, shape.code_size, shape.cells)


def _plan(
    store: Store,
    stage: str,
    settings: CompileSettings,
    shape: AutomatonShape,
    clustering: Stage,
    coded: Stage | None,
) -> Plan[Share]:
    config: Json = {
        "datastore": store.stage("extract").digest,
        "clustering": clustering.digest,
        "states": settings.states,
        "codec": settings.codec,
        "codes": coded.digest if coded else None,
        "unit_entries": settings.unit_entries,
    }
    offsets = np.concatenate([[0], np.cumsum(store.states(settings.states).sizes)])
    shares = [Share("order", *bounds) for bounds in state_ranges(offsets, settings.unit_entries)]
    for kind in ROUNDS[1:]:
        starts = range(0, shape.entries, settings.unit_entries)
        shares += [
            Share(kind, first, min(first + settings.unit_entries, shape.entries))
            for first in starts
        ]
    work = [_work(share, offsets) for share in shares]
    return Plan(stage, config, shares, work, "entries")


def state_ranges(offsets: NDArray[np.int64], entries: int) -> list[tuple[int, int]]:
    """Cut states into ranges of at most so many entries, but at least one state each."""
    ranges, first, last = [], 0, len(offsets) - 1
    while first < last:
        stop = int(np.searchsorted(offsets, offsets[first] + entries, side="right")) - 1
        stop = min(max(stop, first + 1), last)
        ranges.append((first, stop))
        first = stop
    return ranges


def _work(share: Share, offsets: NDArray[np.int64]) -> int:
    if share.kind == "order":
        return int(offsets[share.last] - offsets[share.first])
    return share.last - share.first


def _run(
    writer: StoreWriter,
    plan: Plan[Share],
    missing: list[int],
    blueprint: Blueprint,
    session: Session,
) -> None:
    folder, columns = blueprint.folder, blueprint.shape.columns()
    if len(missing) == len(plan.units):
        shutil.rmtree(folder, ignore_errors=True)
        for name in blueprint.filled():
            preallocated.preallocate(blueprint.part(name), name, *columns[name])
    make = partial(CompileWorker, blueprint, plan.config_hash)
    rounds = [[unit for unit in missing if plan.units[unit].kind == kind] for kind in ROUNDS]
    run_rounds(plan, rounds, make, session)
    _finish(writer, plan, blueprint)


def _finish(writer: StoreWriter, plan: Plan[Share], blueprint: Blueprint) -> None:
    folder, store = blueprint.folder, writer.path.resolve()
    listed: dict[str, FileDigest] = blueprint.write_small()
    for name in blueprint.filled():
        listed[name] = preallocated.finish(blueprint.part(name), folder / f"{name}.arrow")
    inside = folder.relative_to(store).as_posix()
    files = {f"{inside}/{name}.arrow": digest for name, digest in listed.items()}
    description = automaton.write_description(folder, blueprint.shape, listed)
    files[f"{inside}/{automaton.DESCRIPTION}"] = description
    total = sum(digest.bytes for digest in listed.values())
    facts = {**blueprint.shape.__dict__, "bytes_per_entry": total / blueprint.shape.entries}
    writer.finish_merged(plan.name, files, facts)
    shutil.rmtree(folder / "parts", ignore_errors=True)
