"""The stage `index/NAME`: one trained index, filled in shards, measured and tuned.

Its units are those of `index_units.py`; before them, where an index is trained in parts, the
driver has all workers find its cells. What the shards hold is bound to the config; search
parameters are not: asking for another recall only tunes anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import recipe_of
from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.progress import say
from retomaton_dist.runtime.session import Session
from retomaton_dist.search import parameters
from retomaton_dist.search.factory import UNDIVIDED, make_index, trained_how
from retomaton_dist.search.layout import FOLDER, IndexFiles, Layout, shard_path, spans_of
from retomaton_dist.search.library import faiss, ivf_of, limit_threads, takes_entries
from retomaton_dist.search.probe import Probe, choose_k, draw_probe
from retomaton_dist.search.recall import Measure
from retomaton_dist.search.searcher import LocalSearcher
from retomaton_dist.search.tuning import Tuned, tune
from retomaton_dist.settings import BuildSettings, IndexSettings
from retomaton_dist.stages.cluster import clustering_named
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.index_recipe import (
    CELL_ITERATIONS,
    IndexRecipe,
    estimate_index,
    fixed_parameters,
    resolve,
)
from retomaton_dist.stages.index_units import (
    IndexUnit,
    IndexUnits,
    part_paths,
    scratch_folder,
    units_of,
)
from retomaton_dist.stages.index_worker import IndexWorker, exact_path, merged_exact
from retomaton_dist.stages.kmeans_job import TrainingFiles, training_files
from retomaton_dist.stages.kmeans_training import train_shown
from retomaton_dist.stages.runner import Done, Plan, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.manifest import Stage
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store


class IndexStage(BuildStage):
    """A search index over all keys."""

    def check(self, settings: BuildSettings, dimension: int, store: Path | None) -> None:  # noqa: ARG002
        """Refuse a factory string that FAISS cannot make for such keys, and its parameters."""
        chosen = settings.of(IndexSettings)
        fixed = fixed_parameters(chosen)
        if chosen.factory is not None:
            parameters.apply(make_index(chosen.factory, dimension, entries=1), fixed)

    def check_fit(self, settings: BuildSettings, shape: Shape) -> None:
        """Refuse what does not fit so many entries, and a name that the clustering takes."""
        usual, chosen = IndexSettings(), settings.of(IndexSettings)
        taken = chosen.name == usual.name and clustering_named(settings).makes_index(shape)
        if taken and chosen != usual:
            raise BadInput(
                f"--name {usual.name}: greedy merging of so many entries makes an index of this "
                f"name, with default settings; give yours another name"
            )
        resolve(chosen, shape)

    def check_store(self, store: Store, settings: BuildSettings) -> None:
        """The keys are read, and the settings must fit them."""
        resolve(settings.of(IndexSettings), store.shape())

    def run(self, running: Running) -> None:
        """Train, fill and tune what is missing."""
        threads = running.session.settings.threads
        plan = plan_index(running.store, running.settings.of(IndexSettings), threads)
        run_stage(running.writer, plan, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:
        """See `index_recipe.py`."""
        return [estimate_index(settings.of(IndexSettings), work)]


def plan_index(store: Store, settings: IndexSettings, threads: int) -> "IndexPlan":
    """Check everything that can be checked without writing; keys are not looked at."""
    recipe = resolve(settings, store.shape())
    begun = store.manifest.stages.get(f"{FOLDER}/{settings.name}")
    if begun is not None and "divided" not in begun.config:
        # Begun by a version that divided nothing: it is finished, and tuned, as it was begun.
        recipe = replace(recipe, division=UNDIVIDED)
    return IndexPlan(store, settings, recipe, threads)


@dataclass(frozen=True)
class IndexPlan(Plan[IndexUnit], PicklesFieldsOnly):
    """An index before it is built. It is sent to its workers."""

    store: Store
    settings: IndexSettings
    recipe: IndexRecipe
    threads: int

    work_name = "steps"
    # FAISS may find fault with a factory string only when it trains: another may follow.
    undone_by = (BadInput,)

    @property
    def name(self) -> str:
        """After the index."""
        return f"{FOLDER}/{self.settings.name}"

    @cached_property
    def empty(self) -> Any:
        """The index before its training."""
        shape = self.store.shape()
        return make_index(self.recipe.choice.factory, shape.dimension, shape.entries)

    @cached_property
    def layout(self) -> Layout:
        """What index.json will say, but for how it is searched and how good it is."""
        empty, shape = self.empty, self.store.shape()
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
            trained=trained_how(empty, self.recipe.division),
        )

    @cached_property
    def config(self) -> Json:
        """What the shards hold, and what recall is measured with."""
        division, divided = self.recipe.division, dict[str, Json]()
        if division != UNDIVIDED:
            iterations = CELL_ITERATIONS if division.training else None
            entries = self.settings.unit_entries
            divided = {"divided": {"cell_iterations": iterations, "unit_entries": entries}}
        return {
            "datastore": self.layout.datastore,
            "factory": self.layout.factory,
            "shards": len(self.layout.spans),
            "sample": self.recipe.sample,
            "seed": self.settings.seed,
            "recall_k": min(self._k, max(1, self.layout.entries - 1)),
            "recall_queries": min(self.settings.recall_queries, self.layout.entries),
            "threads": self.threads,
            **divided,
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
    def parts(self) -> IndexUnits:
        """The units by their kinds."""
        recipe, entries = self.recipe, self.settings.unit_entries
        sizes = self.layout.spans, recipe.division, recipe.sample, entries
        return units_of(self.empty, self.store.shape(), *sizes)

    @property
    def units(self) -> list[IndexUnit]:
        """The shards, the training, and what these are made of."""
        return self.parts.payloads

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        return self.parts.work(self.store.shape(), self.recipe.sample)

    @property
    def rounds(self) -> Sequence[Sequence[int]]:
        """Training comes first, and blocks before shards."""
        return self.parts.rounds

    @property
    def cell_files(self) -> TrainingFiles | None:
        """Where the training of the cells leaves them, unless FAISS trains the index whole."""
        if not self.recipe.division.training:
            return None
        return training_files(
            self.store.path / scratch_folder(self.settings.name), self.config_hash
        )

    def lead(self, session: Session) -> None:
        """Find the cells with all workers, or say that one worker trains the whole index."""
        training = {unit for group in self.rounds[:3] for unit in group}
        if training <= Store.open(self.store.path).units(self.name):
            return
        if self.cell_files is not None:
            layout, sample, seed = self.layout, self.recipe.sample, self.settings.seed
            recipe = recipe_of(layout.cells, CELL_ITERATIONS, sample, seed, layout.dimension)
            reader = GuardedReader(self.store)
            train_shown("index cells", session, reader, recipe, self.cell_files, Blocking())
        elif self.recipe.sample:
            say(f"note: {self.layout.factory} is trained by one worker, not in parts")

    def to_do(self, missing: set[int]) -> set[int]:
        """Parts of what is missing are made anew if they were cleaned away."""
        wanted = set(missing)
        # Backwards through the rounds: what is to be made anew may itself need others.
        for unit in (unit for group in reversed(self.rounds) for unit in group):
            if unit in wanted:
                wanted |= {part for part in self.parts.needed_by(unit) if self._gone(part)}
        return wanted

    def _gone(self, unit: int) -> bool:
        left = part_paths(self.settings.name, unit, self.units[unit])
        return not all((self.store.path / path).exists() for path in left)

    def scratch(self) -> Sequence[Path]:
        """What units leave for each other, and the checkpoint of the cells."""
        return (self.store.path / scratch_folder(self.settings.name),)

    def worker(self) -> Callable[[], IndexWorker]:
        """Trains, fills and merges."""
        return partial(IndexWorker, self, self.probe)

    def finish(self, units: Sequence[Record]) -> Done:
        """Measure recall, tune to the target, and write both into index.json."""
        # There may be fewer cells than asked for.
        cells = units[self.parts.training].facts.get("cells", self.layout.cells)
        layout = replace(self.layout, cells=cells)
        best, target = self._tuned(units, layout), self.settings.target_recall
        recall: Json = {
            "k": self.probe.k,
            "queries": len(self.probe.entries),
            "recall": best.recall,
            "target": target,
            "reached": best.recall >= target,
        }
        layout = replace(
            layout, parameters=dict(best.parameters), recall={**recall, "tried": best.tried}
        )
        facts = {
            "factory": layout.factory,
            "why": layout.why,
            "entries": layout.entries,
            "shards": len(layout.spans),
            "searched_with": parameters.render(layout.parameters),
            "recall": recall,
            "faiss": layout.faiss,
            "trained": layout.trained,
            "wanted": self._wanted,
        }
        return Done(layout.write(self.store.path), facts)

    def _tuned(self, units: Sequence[Record], layout: Layout) -> Tuned:
        """The parameters that reach the target, and all recalls that were measured."""
        limit_threads(self.threads, layout.factory)
        store, name, shards = self.store.path, layout.name, range(len(layout.spans))
        exact = merged_exact((store / exact_path(name, shard) for shard in shards), self.probe)
        measure = Measure(self.probe, exact, self.store.datastore().keys)
        digests = tuple(units[shard].files[shard_path(name, shard)] for shard in shards)
        with LocalSearcher(IndexFiles(store, layout, digests)) as searcher:

            def recall(chosen: parameters.Parameters) -> float:
                searcher.configure(chosen)
                return round(measure.recall(searcher), 6)

            tuned, most = parameters.tuned_name(self.empty), layout.cells or layout.entries
            fixed, target = fixed_parameters(self.settings), self.settings.target_recall
            return tune(recall, fixed, tuned, most, target)

    @property
    def _wanted(self) -> Json:
        fixed = fixed_parameters(self.settings)
        return {"target_recall": self.settings.target_recall, "parameters": fixed}

    def up_to_date(self, stage: Stage) -> bool:
        """Whether the index was tuned to what is asked for now."""
        found: bool = stage.facts["wanted"] == self._wanted
        return found
