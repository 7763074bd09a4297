"""The stage `index/NAME`: one trained index, filled in shards, measured and tuned.

Units 0..S-1 are the shards, unit S is the training, which comes first. What the shards hold is
bound to the config; search parameters are not: asking for another recall only tunes anew.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.runtime.pool import run_units
from retomaton_dist.runtime.progress import showing
from retomaton_dist.search import parameters
from retomaton_dist.search.factory import (
    Choice,
    check_trainable,
    choose_factory,
    choose_sample,
    choose_shards,
    make_index,
)
from retomaton_dist.search.keys import CheckedKeys
from retomaton_dist.search.layout import (
    FOLDER,
    IndexFiles,
    Layout,
    Span,
    check_name,
    shard_path,
    spans_of,
    trained_path,
)
from retomaton_dist.search.library import faiss, ivf_of, limit_threads, takes_entries
from retomaton_dist.search.merge import merge
from retomaton_dist.search.probe import Probe, choose_k, draw_probe
from retomaton_dist.search.recall import Measure
from retomaton_dist.search.searcher import LocalSearcher
from retomaton_dist.search.settings import IndexSettings
from retomaton_dist.search.tuning import tune
from retomaton_dist.stages.index_worker import (
    IndexTask,
    ShardWorker,
    TrainWorker,
    read_exact,
)
from retomaton_dist.stages.runner import Plan, begin, run_missing
from storage import records
from storage.canonical import Json
from storage.files import FileDigest
from storage.manifest import Stage
from storage.store import Store, StoreWriter


@dataclass(frozen=True)
class IndexPlan:
    """An index before it is built: everything checked, every `auto` found out."""

    plan: Plan[Span]
    task: IndexTask
    layout: Layout
    tuned: str | None
    sample: int
    seed: int
    keys: CheckedKeys
    probe: Probe

    @property
    def training(self) -> int:
        """The unit that trains."""
        return len(self.layout.spans)


def plan_index(store: Store, settings: IndexSettings, threads: int) -> IndexPlan:
    """Check everything that can be checked without writing."""
    _check_settings(settings)
    keys = CheckedKeys.open(store)
    shape = keys.datastore.shape
    choice = _chosen(settings, shape.entries, shape.dimension)
    empty = make_index(choice.factory, shape.dimension, shape.entries)
    check_trainable(choice.factory, empty, shape.entries, settings.sample)
    parameters.apply(empty, fixed_parameters(settings))
    sample = choose_sample(empty, shape.entries)
    if settings.sample is not None:
        sample = min(sample and settings.sample, shape.entries)
    shards = settings.shards or choose_shards(empty, shape.entries, shape.chunks)
    if shards > shape.chunks:
        raise BadInput(
            f"--shards {shards}: shards are made of whole chunks, of which the store has "
            f"{shape.chunks}; use at most so many"
        )
    ivf = ivf_of(empty)
    layout = Layout(
        name=settings.name,
        factory=choice.factory,
        why=choice.why,
        datastore=str(store.stage("extract").digest),
        entries=shape.entries,
        dimension=shape.dimension,
        cells=0 if ivf is None else int(ivf.nlist),
        takes_entries=takes_entries(empty),
        spans=spans_of(shape, shards),
        faiss=faiss.__version__,
    )
    k = settings.recall_k or choose_k(shape.entries)
    probe = draw_probe(store.corpus(), keys.datastore, settings.recall_queries, k, settings.seed)
    plan = _plan(layout, sample, settings, probe, threads)
    task = IndexTask(store.path, settings.name, plan.config_hash, choice.factory, threads)
    tuned = parameters.tuned_name(empty)
    return IndexPlan(plan, task, layout, tuned, sample, settings.seed, keys, probe)


def _plan(
    layout: Layout, sample: int, settings: IndexSettings, probe: Probe, threads: int
) -> Plan[Span]:
    config: Json = {
        "datastore": layout.datastore,
        "factory": layout.factory,
        "shards": len(layout.spans),
        "sample": sample,
        "seed": settings.seed,
        "recall_k": probe.k,
        "recall_queries": len(probe.entries),
        "threads": threads,
    }
    whole = Span((0, 0), 0, layout.entries)
    work = [span.last - span.first for span in layout.spans]
    return Plan(f"{FOLDER}/{layout.name}", config, [*layout.spans, whole], [*work, 0], "entries")


def index(
    writer: StoreWriter, planned: IndexPlan, settings: IndexSettings, session: Session
) -> Stage:
    """Build the index, or what is missing of it; tune it if it was tuned to something else."""
    name = planned.plan.name
    missing = begin(writer, planned.plan, session)
    if missing is not None:
        _fill(writer, planned, missing, session)
    wanted = _wanted(settings)
    if missing is None and writer.manifest.stages[name].facts["wanted"] != wanted:
        # Until index.json is rewritten the stage is not done: a kill in between shows.
        writer.forget(name, None)
    if not writer.manifest.stages[name].done:
        layout = _tuned(writer.path, planned, settings)
        writer.finish(name, layout.write(writer.path), _facts(layout, wanted))
    return writer.manifest.stages[name]


def fixed_parameters(settings: IndexSettings) -> dict[str, float]:
    """The search parameters that the user sets."""
    given = parameters.parse(settings.parameters or "")
    return given if settings.nprobe is None else {**given, "nprobe": settings.nprobe}


def _fill(writer: StoreWriter, planned: IndexPlan, missing: list[int], session: Session) -> None:
    task, plan = planned.task, planned.plan
    if planned.training in missing:
        try:
            _train(planned, session)
        except BadInput:
            # FAISS found fault with the factory string only now: another may follow.
            writer.abandon(plan.name)
            raise
    record = records.read(writer.path, plan.name, planned.training, plan.config_hash)
    trained = record.files[trained_path(task.name)]
    shards = [unit for unit in missing if unit != planned.training]
    run_missing(
        plan, shards, partial(ShardWorker, task, planned.keys, planned.probe, trained), session
    )


def _train(planned: IndexPlan, session: Session) -> None:
    datastore = planned.keys.datastore
    make = partial(TrainWorker, planned.task, datastore, planned.sample, planned.seed)
    if not planned.sample:
        make().run(planned.training)
        return
    crew, limit = session.crew(gpu=False), session.settings.unit_timeout
    label = f"{planned.plan.name}: train"
    with showing(session.settings.progress, label, planned.sample, "entries") as progress:
        for _, facts in run_units(crew, make, [planned.training], limit, progress.begin):
            progress.advance(facts["entries"])


def _tuned(store: Path, planned: IndexPlan, settings: IndexSettings) -> Layout:
    """Measure recall, tune to the target, and put both into the layout."""
    layout, probe, task = planned.layout, planned.probe, planned.task
    limit_threads(task.threads, task.factory)
    numbers = range(len(layout.spans))
    digests = tuple(_digest(store, planned, number) for number in numbers)
    exact = merge([read_exact(store, task.name, number, probe) for number in numbers], probe.k + 1)
    measure = Measure(probe, exact, planned.keys.datastore.keys)
    with LocalSearcher(IndexFiles(store, layout, digests)) as searcher:

        def recall(chosen: parameters.Parameters) -> float:
            searcher.configure(chosen)
            return round(measure.recall(searcher), 6)

        most = layout.cells or layout.entries
        found = tune(
            recall, fixed_parameters(settings), planned.tuned, most, settings.target_recall
        )
    report: Json = {
        "k": probe.k,
        "queries": len(probe.entries),
        "recall": found.recall,
        "target": settings.target_recall,
        "reached": found.recall >= settings.target_recall,
        "tried": found.tried,
    }
    return _with(layout, parameters=dict(found.parameters), recall=report)


def _with(layout: Layout, **changes: Any) -> Layout:
    return Layout(**{**layout.__dict__, **changes})


def _digest(store: Path, planned: IndexPlan, number: int) -> FileDigest:
    plan = planned.plan
    record = records.read(store, plan.name, number, plan.config_hash)
    return record.files[shard_path(planned.layout.name, number)]


def _facts(layout: Layout, wanted: Json) -> Json:
    return {
        "factory": layout.factory,
        "why": layout.why,
        "entries": layout.entries,
        "shards": len(layout.spans),
        "searched_with": parameters.render(layout.parameters),
        "recall": {name: value for name, value in layout.recall.items() if name != "tried"},
        "faiss": layout.faiss,
        "wanted": wanted,
    }


def _wanted(settings: IndexSettings) -> Json:
    return {"target_recall": settings.target_recall, "parameters": fixed_parameters(settings)}


def _chosen(settings: IndexSettings, entries: int, dimension: int) -> Choice:
    if settings.factory is None:
        return choose_factory(entries, dimension)
    return Choice(settings.factory, "as asked for")


def _check_settings(settings: IndexSettings) -> None:
    check_name(settings.name)
    for name in ("shards", "sample", "recall_k", "recall_queries", "nprobe"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise BadInput(f"--{name.replace('_', '-')} {value}: at least 1 is needed")
    if not 0 < settings.target_recall <= 1:
        raise BadInput(f"--target-recall {settings.target_recall}: must be above 0, at most 1")
