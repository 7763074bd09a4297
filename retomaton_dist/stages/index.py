"""The stage `index/NAME`: one trained index, filled in shards, measured and tuned.

Units 0..S-1 are the shards, unit S is the training, which comes first. What the shards hold is
bound to the config; search parameters are not: asking for another recall only tunes anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.search import parameters
from retomaton_dist.search.factory import (
    Choice,
    check_trainable,
    choose_factory,
    choose_sample,
    choose_shards,
    make_index,
)
from retomaton_dist.search.layout import (
    FOLDER,
    IndexFiles,
    Layout,
    ShardSpan,
    shard_path,
    spans_of,
)
from retomaton_dist.search.library import faiss, ivf_of, limit_threads, takes_entries
from retomaton_dist.search.merge import merge
from retomaton_dist.search.probe import Probe, choose_k, draw_probe
from retomaton_dist.search.recall import Measure
from retomaton_dist.search.searcher import LocalSearcher
from retomaton_dist.search.tuning import tune
from retomaton_dist.settings import IndexSettings
from retomaton_dist.stages.index_worker import TRAINING, IndexTask, IndexWorker, read_exact
from retomaton_dist.stages.runner import Done, Plan
from storage.canonical import Json
from storage.datastore import Shape
from storage.guarded import GuardedReader
from storage.manifest import Stage
from storage.records import Record
from storage.store import Store


@dataclass(frozen=True)
class IndexRecipe:
    """What is made, with every `auto` found out; `empty` is the index before its training."""

    choice: Choice
    empty: Any
    sample: int
    shards: int


def check_settings(settings: IndexSettings, dimension: int) -> None:
    """Refuse a factory string that FAISS cannot make for keys of this width, and its parameters."""
    fixed = fixed_parameters(settings)
    if settings.factory is not None:
        parameters.apply(make_index(settings.factory, dimension, entries=1), fixed)


def resolve(settings: IndexSettings, shape: Shape) -> IndexRecipe:
    """Fill in what is `auto` and refuse what does not fit so many entries."""
    choice = _chosen(settings, shape)
    empty = make_index(choice.factory, shape.dimension, shape.entries)
    check_trainable(choice.factory, empty, shape.entries, settings.sample)
    parameters.apply(empty, fixed_parameters(settings))
    sample = choose_sample(empty, shape.entries)
    if settings.sample is not None:
        sample = min(sample and settings.sample, shape.entries)
    shards = settings.shards or choose_shards(empty, shape.entries, shape.chunks)
    if shards > shape.chunks:
        raise BadInput(
            f"--shards {shards}: shards are made of whole chunks, of which there are "
            f"{shape.chunks}; use at most so many"
        )
    return IndexRecipe(choice, empty, sample, shards)


def _chosen(settings: IndexSettings, shape: Shape) -> Choice:
    if settings.factory is None:
        return choose_factory(shape.entries, shape.dimension)
    return Choice(settings.factory, "as asked for")


def fixed_parameters(settings: IndexSettings) -> dict[str, float]:
    """The search parameters that the user sets."""
    given = parameters.parse(settings.parameters or "")
    return given if settings.nprobe is None else {**given, "nprobe": settings.nprobe}


def plan_index(store: Store, settings: IndexSettings, threads: int) -> "IndexPlan":
    """Check everything that can be checked without writing; keys are not looked at."""
    return IndexPlan(store, settings, resolve(settings, store.shape()), threads)


@dataclass(frozen=True)
class IndexPlan(Plan[ShardSpan | None]):
    """An index before it is built."""

    store: Store
    settings: IndexSettings
    recipe: IndexRecipe
    threads: int

    # FAISS may find fault with a factory string only when it trains: another may follow.
    undone_by = (BadInput,)

    @property
    def name(self) -> str:
        """After the index."""
        return f"{FOLDER}/{self.settings.name}"

    @cached_property
    def layout(self) -> Layout:
        """What index.json will say, but for how it is searched and how good it is."""
        empty, shape = self.recipe.empty, self.store.shape()
        ivf = ivf_of(empty)
        return Layout(
            name=self.settings.name,
            factory=self.recipe.choice.factory,
            why=self.recipe.choice.why,
            datastore=str(self.store.stage("extract").digest),
            entries=shape.entries,
            dimension=shape.dimension,
            cells=0 if ivf is None else int(ivf.nlist),
            takes_entries=takes_entries(empty),
            spans=spans_of(shape, self.recipe.shards),
            faiss=faiss.__version__,
        )

    @cached_property
    def config(self) -> Json:
        """What the shards hold, and what recall is measured with."""
        return {
            "datastore": self.layout.datastore,
            "factory": self.layout.factory,
            "shards": len(self.layout.spans),
            "sample": self.recipe.sample,
            "seed": self.settings.seed,
            "recall_k": min(self._k, max(1, self.layout.entries - 1)),
            "recall_queries": min(self.settings.recall_queries, self.layout.entries),
            "threads": self.threads,
        }

    @property
    def _k(self) -> int:
        return self.settings.recall_k or choose_k(self.layout.entries)

    @cached_property
    def probe(self) -> Probe:
        """The entries that recall is measured with."""
        queries, reader = self.settings.recall_queries, GuardedReader(self.store)
        return draw_probe(self.store.corpus(), reader, queries, self._k, self.settings.seed)

    @cached_property
    def units(self) -> list[ShardSpan | None]:
        """The shards, then the training."""
        return [*self.layout.spans, TRAINING]

    @cached_property
    def work(self) -> list[float]:
        """Entries of each shard, and those that are trained on."""
        shards = [float(span.last - span.first) for span in self.layout.spans]
        return [*shards, float(self.recipe.sample)]

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """Training comes first."""
        shards = len(self.layout.spans)
        return [[shards], range(shards)]

    def worker(self) -> Callable[[], IndexWorker]:
        """Trains, or fills shards."""
        task = IndexTask(
            name=self.settings.name,
            factory=self.layout.factory,
            threads=self.threads,
            sample=self.recipe.sample,
            seed=self.settings.seed,
            training=len(self.layout.spans),
        )
        return partial(IndexWorker, GuardedReader(self.store), task, self.probe)

    def finish(self, units: Sequence[Record]) -> Done:
        """Measure recall, tune to the target, and write both into index.json."""
        layout = self._tuned(units[: len(self.layout.spans)])
        facts = {
            "factory": layout.factory,
            "why": layout.why,
            "entries": layout.entries,
            "shards": len(layout.spans),
            "searched_with": parameters.render(layout.parameters),
            "recall": {name: value for name, value in layout.recall.items() if name != "tried"},
            "faiss": layout.faiss,
            "wanted": self._wanted,
        }
        return Done(layout.write(self.store.path), facts)

    @property
    def _wanted(self) -> Json:
        fixed = fixed_parameters(self.settings)
        return {"target_recall": self.settings.target_recall, "parameters": fixed}

    def up_to_date(self, stage: Stage) -> bool:
        """Whether the index was tuned to what is asked for now."""
        found: bool = stage.facts["wanted"] == self._wanted
        return found

    def _tuned(self, shards: Sequence[Record]) -> Layout:
        settings, layout, store = self.settings, self.layout, self.store.path
        limit_threads(self.threads, layout.factory)
        digests = tuple(
            record.files[shard_path(layout.name, number)] for number, record in enumerate(shards)
        )
        found = [read_exact(store, layout.name, shard.unit, self.probe) for shard in shards]
        exact = merge(found, self.probe.k + 1)
        measure = Measure(self.probe, exact, self.store.datastore().keys)
        with LocalSearcher(IndexFiles(store, layout, digests)) as searcher:

            def recall(chosen: parameters.Parameters) -> float:
                searcher.configure(chosen)
                return round(measure.recall(searcher), 6)

            tuned = parameters.tuned_name(self.recipe.empty)
            most = layout.cells or layout.entries
            best = tune(recall, fixed_parameters(settings), tuned, most, settings.target_recall)
        report: Json = {
            "k": self.probe.k,
            "queries": len(self.probe.entries),
            "recall": best.recall,
            "target": settings.target_recall,
            "reached": best.recall >= settings.target_recall,
            "tried": best.tried,
        }
        return replace(layout, parameters=dict(best.parameters), recall=report)
