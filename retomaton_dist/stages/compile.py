"""The stage `compile/NAME`: entries in the order of (state, value, entry), ready to be mapped.

Four rounds of units, each over what the round before has finished:

    check    what is read of the datastore, the clustering and the codec: are its bytes sound?
    order    states first..last-1: gather and sort entries   -> entries, values, states, codes
    invert   entries first..last-1: find their slots         -> slots
    link     slots first..last-1: follow their pointers      -> nexts

A unit holds about `unit_entries` entries in memory, whatever N and its largest state are; besides,
8 bytes per state.
"""

import re
import shutil
from functools import partial

from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.settings import CompileSettings
from retomaton_dist.stages import codec as encoding
from retomaton_dist.stages.compile_pieces import ranges_within
from retomaton_dist.stages.compile_worker import ROUNDS, Blueprint, CompileWorker, Share
from retomaton_dist.stages.rounds import run_rounds
from retomaton_dist.stages.runner import Plan, begin
from storage import automaton, preallocated
from storage.automaton import MOST_STATES, AutomatonShape
from storage.canonical import Json
from storage.codec import CodecFiles
from storage.files import FileDigest
from storage.manifest import Stage
from storage.store import Store, StoreWriter

# Checking needs no memory: few, large units, because each one opens the datastore.
CHECK_ENTRIES = 1 << 21
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
    store = Store.open(store.path)
    shape = _shape(store, settings, coded)
    blueprint = Blueprint(
        store,
        automaton_name(settings),
        store.states(settings.states),
        shape,
        _codec_files(store, shape),
        settings.unit_entries,
    )
    plan = _plan(blueprint, stage, settings, clustering, coded)
    missing = begin(writer, plan, session)
    if missing is not None:
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
    states = store.stage(f"cluster/{settings.states}").facts["states"]
    if states > MOST_STATES:
        raise BadInput(f"--states {settings.states}: {states:,} states, {MOST_STATES:,} at most")
    return AutomatonShape(
        entries=facts["entries"],
        states=states,
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
    blueprint: Blueprint,
    stage: str,
    settings: CompileSettings,
    clustering: Stage,
    coded: Stage | None,
) -> Plan[Share]:
    config: Json = {
        "datastore": blueprint.store.stage("extract").digest,
        "clustering": clustering.digest,
        "states": settings.states,
        "codec": settings.codec,
        "codes": coded.digest if coded else None,
        "unit_entries": settings.unit_entries,
    }
    units = shares(blueprint)
    work = [_work(share, blueprint) for share in units]
    return Plan(stage, config, units, work, "entries")


def shares(blueprint: Blueprint) -> list[Share]:
    """All units of the stage, round by round."""
    entries, size = blueprint.shape.entries, blueprint.unit_entries
    checks = [Share("check", 0, entries, stage) for stage in blueprint.read_files()]
    checks += [Share("check", *bounds) for bounds in _cut(entries, CHECK_ENTRIES)]
    orders = [Share("order", *bounds) for bounds in ranges_within(blueprint.offsets, size)]
    others = [Share(kind, *bounds) for kind in ROUNDS[2:] for bounds in _cut(entries, size)]
    return [*checks, *orders, *others]


def _cut(entries: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, entries)) for first in range(0, entries, size)]


def _work(share: Share, blueprint: Blueprint) -> int:
    if share.kind == "order":
        return int(blueprint.offsets[share.last] - blueprint.offsets[share.first])
    return share.last - share.first


def _run(
    writer: StoreWriter,
    plan: Plan[Share],
    missing: list[int],
    blueprint: Blueprint,
    session: Session,
) -> None:
    if len(missing) == len(plan.units):
        shutil.rmtree(blueprint.folder, ignore_errors=True)
        preallocated.preallocate(blueprint.parts, blueprint.filled())
    make = partial(CompileWorker, blueprint, plan.config_hash)
    rounds = [[unit for unit in missing if plan.units[unit].kind == kind] for kind in ROUNDS]
    run_rounds(plan, rounds, make, session)
    finish(writer, plan, blueprint)


def finish(writer: StoreWriter, plan: Plan[Share], blueprint: Blueprint) -> None:
    """Declare the stage done, whose units all are."""
    folder, store = blueprint.folder, writer.path.resolve()
    listed: dict[str, FileDigest] = blueprint.write_small()
    listed |= preallocated.finish(blueprint.parts, folder, blueprint.filled())
    inside = folder.relative_to(store).as_posix()
    files = {f"{inside}/{name}.arrow": digest for name, digest in listed.items()}
    description = automaton.write_description(folder, blueprint.shape, listed)
    files[f"{inside}/{automaton.DESCRIPTION}"] = description
    total = sum(digest.bytes for digest in listed.values())
    facts = {**blueprint.shape.__dict__, "bytes_per_entry": total / blueprint.shape.entries}
    writer.finish_merged(plan.name, files, facts)
    shutil.rmtree(blueprint.parts, ignore_errors=True)
