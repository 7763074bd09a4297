"""The stage `index/NAME`: one trained index, filled in shards, measured and tuned.

Its units are those of `index_units.py`; before them, where an index is trained in parts, the
driver has all workers find its cells. What the shards hold is bound to the config; search
parameters are not: asking for another recall only tunes anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.progress import say
from retomaton_dist.runtime.session import Session
from retomaton_dist.search import parameters
from retomaton_dist.search.division import UNDIVIDED, division_of, trained_how
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
    Layout,
    shard_path,
    spans_of,
)
from retomaton_dist.search.library import faiss, ivf_of, limit_threads, takes_entries
from retomaton_dist.search.probe import Probe, choose_k, draw_probe
from retomaton_dist.settings import BuildSettings, IndexSettings
from retomaton_dist.stages.cluster import clustering_named
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.index_cells import ITERATIONS, CellTraining
from retomaton_dist.stages.index_cost import IndexRecipe, estimate_index
from retomaton_dist.stages.index_tuning import fixed_parameters, tuned
from retomaton_dist.stages.index_units import (
    IndexUnit,
    IndexUnits,
    part_paths,
    scratch_folder,
    units_of,
)
from retomaton_dist.stages.index_worker import IndexTask, IndexWorker
from retomaton_dist.stages.runner import Done, Plan, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.manifest import Stage
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
        """See `index_cost.py`."""
        chosen = settings.of(IndexSettings)
        return [estimate_index(chosen, resolve(chosen, work.shape), work)]


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
    return IndexRecipe(choice, empty, sample, shards, division_of(empty))


def _chosen(settings: IndexSettings, shape: Shape) -> Choice:
    if settings.factory is None:
        return choose_factory(shape.entries, shape.dimension)
    return Choice(settings.factory, "as asked for")


def plan_index(store: Store, settings: IndexSettings, threads: int) -> "IndexPlan":
    """Check everything that can be checked without writing; keys are not looked at."""
    recipe = resolve(settings, store.shape())
    begun = store.manifest.stages.get(f"{FOLDER}/{settings.name}")
    if begun is not None and "divided" not in begun.config:
        # Begun by a version that divided nothing: it is finished, and tuned, as it was begun.
        recipe = replace(recipe, division=UNDIVIDED)
    return IndexPlan(store, settings, recipe, threads)


@dataclass(frozen=True)
class IndexPlan(Plan[IndexUnit]):
    """An index before it is built."""

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
            trained=trained_how(empty, self.recipe.division),
        )

    @cached_property
    def config(self) -> Json:
        """What the shards hold, and what recall is measured with."""
        described = {
            "datastore": self.layout.datastore,
            "factory": self.layout.factory,
            "shards": len(self.layout.spans),
            "sample": self.recipe.sample,
            "seed": self.settings.seed,
            "recall_k": min(self._k, max(1, self.layout.entries - 1)),
            "recall_queries": min(self.settings.recall_queries, self.layout.entries),
            "threads": self.threads,
        }
        return described | self._divided

    @property
    def _divided(self) -> Json:
        division = self.recipe.division
        if division == UNDIVIDED:
            return {}
        iterations = ITERATIONS if division.training else None
        entries = self.settings.unit_entries
        return {"divided": {"cell_iterations": iterations, "unit_entries": entries}}

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
        return units_of(recipe.empty, self.store.shape(), *sizes)

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
    def cells(self) -> CellTraining | None:
        """How the cells are found, unless FAISS trains the index whole."""
        if not self.recipe.division.training:
            return None
        folder = self.store.path / scratch_folder(self.settings.name)
        sizes = self.layout.cells, self.recipe.sample, self.settings.seed
        return CellTraining(folder, self.config_hash, *sizes)

    def lead(self, session: Session) -> None:
        """Find the cells with all workers, or say that one worker trains the whole index."""
        training = {unit for group in self.rounds[:3] for unit in group}
        if training <= Store.open(self.store.path).units(self.name):
            return
        if self.cells is not None:
            self.cells.run(GuardedReader(self.store), session)
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
        task = IndexTask(
            name=self.settings.name,
            factory=self.layout.factory,
            threads=self.threads,
            sample=self.recipe.sample,
            seed=self.settings.seed,
            units=self.parts,
            cells=self.cells,
        )
        return partial(IndexWorker, GuardedReader(self.store), task, self.probe)

    def finish(self, units: Sequence[Record]) -> Done:
        """Measure recall, tune to the target, and write both into index.json."""
        layout = self._tuned(units)
        facts = {
            "factory": layout.factory,
            "why": layout.why,
            "entries": layout.entries,
            "shards": len(layout.spans),
            "searched_with": parameters.render(layout.parameters),
            "recall": {name: value for name, value in layout.recall.items() if name != "tried"},
            "faiss": layout.faiss,
            "trained": layout.trained,
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

    def _tuned(self, units: Sequence[Record]) -> Layout:
        shards, training = units[: self.parts.training], units[self.parts.training]
        # There may be fewer cells than asked for.
        layout = replace(self.layout, cells=training.facts.get("cells", self.layout.cells))
        limit_threads(self.threads, layout.factory)
        digests = [
            record.files[shard_path(layout.name, number)] for number, record in enumerate(shards)
        ]
        return tuned(self.store, layout, digests, self.recipe.empty, self.probe, self.settings)
