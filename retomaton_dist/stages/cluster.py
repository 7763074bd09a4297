"""The stage `cluster/NAME`: entries with close keys become states.

kmeans   train centroids on a sample, in units (kmeans_training.py; a checkpoint after every
         iteration), then give every entry the nearest one, in units                  (kmeans.py)
greedy   every entry absorbs near neighbours of equal value                           (greedy.py)
none     every entry is its own state; nothing is stored
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from retomaton_dist.clustering.arrays import blocks_of
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.statistics import histogram, see_members, summarise
from retomaton_dist.settings import BuildSettings, ClusterSettings
from retomaton_dist.settings.choices import CLUSTERINGS
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.runner import Done, Plan, chunk_units, chunk_work, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage import states
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.scratch import mapped_zeros
from retomaton_dist.storage.states import States
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.windows import Windows

BLOCK_ENTRIES = 1 << 20


class Clustering(ABC):
    """One way to make states of entries."""

    @abstractmethod
    def plan(self, store: Store, settings: ClusterSettings, device: str) -> Plan[Any]:
        """The stage before it runs."""

    @abstractmethod
    def states(self, settings: ClusterSettings, shape: Shape) -> int:
        """How many states there will be at most; what does not fit so many entries is refused."""

    @abstractmethod
    def estimate(self, settings: ClusterSettings, work: Work) -> StageEstimate:
        """What it would leave and need."""

    def before(self, running: Running) -> None:  # noqa: B027 - most need nothing
        """Run what must be there first."""

    def makes_index(self, shape: Shape) -> bool:  # noqa: ARG002 - most make none
        """Whether it makes itself an index, by default settings, of so many entries."""
        return False


def clustering_named(settings: BuildSettings) -> Clustering:
    """The clustering that the settings choose."""
    chosen: Clustering = CLUSTERINGS[settings.of(ClusterSettings).algorithm]()
    return chosen


class ClusterStage(BuildStage):
    """Entries become states."""

    gpu = True
    needs = "extract"

    def check_fit(self, settings: BuildSettings, shape: Shape) -> None:
        """Refuse more states than entries."""
        clustering_named(settings).states(settings.of(ClusterSettings), shape)

    def run(self, running: Running) -> None:
        """Cluster what is missing."""
        clustering = clustering_named(running.settings)
        clustering.before(running)
        device = "cuda" if running.session.has_gpu() else "cpu"
        plan = clustering.plan(running.store, running.settings.of(ClusterSettings), device)
        run_stage(running.writer, plan, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:
        """As the algorithm says."""
        return [clustering_named(settings).estimate(settings.of(ClusterSettings), work)]


@dataclass(frozen=True)
class ClusterPlan(Plan[range]):
    """The entries of a store, and what their clustering is called."""

    store: Store
    clustering: str

    merges = True

    @property
    def name(self) -> str:
        """After the clustering."""
        return f"cluster/{self.clustering}"


@dataclass(frozen=True)
class KeysPlan(ClusterPlan, PicklesFieldsOnly):
    """A clustering by keys, whole chunks at a time, which are compared as `blocking` says.

    It is sent to its workers.
    """

    blocking: Blocking

    unit_entries: ClassVar[int]

    @cached_property
    def units(self) -> list[range]:
        """Whole chunks."""
        return chunk_units(self.store.shape(), self.unit_entries)

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        return chunk_work(self.store.shape(), self.units)

    @property
    def gpu(self) -> bool:  # type: ignore[override]
        """As the blocking says."""
        return self.blocking.device == "cuda"


def with_statistics(clustering: States, files: Mapping[str, FileDigest], facts: Json) -> Done:
    """Store the sizes; return all files of a clustering, and statistics beside the given facts.

    `inertia` and `distances` (their sums over all entries) may be among the facts.
    """
    store, name = clustering.folder.parents[1], clustering.folder.name
    # On disk: there may be nearly as many states as entries.
    scratch = states.parts_of(store, name)
    sizes, values = (
        mapped_zeros(scratch, array, np.int64, clustering.count) for array in ("sizes", "values")
    )
    tokens = Windows(clustering.datastore, "values")
    for part in blocks_of(len(tokens), BLOCK_ENTRIES):
        see_members(sizes, values, clustering.state_of_entry[part], tokens[part])
    sums = facts.pop("inertia", None), facts.pop("distances", None)
    statistics = summarise(sizes, values, *sums)
    written = states.write_column(store, name, "sizes", sizes)
    shown = {**facts, **asdict(statistics), "histogram": histogram(sizes)}
    return Done({**files, **written}, shown)


class NoClusters(Clustering):
    """Every entry is its own state."""

    def plan(self, store: Store, settings: ClusterSettings, device: str) -> Plan[Any]:  # noqa: ARG002
        """There is nothing to do."""
        return NoClustersPlan(store, settings.clustering)

    def states(self, settings: ClusterSettings, shape: Shape) -> int:  # noqa: ARG002
        """One per entry."""
        return shape.entries

    def estimate(self, settings: ClusterSettings, work: Work) -> StageEstimate:
        """Nothing is stored."""
        makes = f"states/{settings.clustering}: every entry"
        return StageEstimate("cluster", makes, 0, 0, work.workers, 0)


@dataclass(frozen=True)
class NoClustersPlan(ClusterPlan):
    """Every entry is its own state: there is nothing to do and nothing to store."""

    units: Sequence[range] = ()
    work: Sequence[float] = ()

    @cached_property
    def config(self) -> Json:
        """The entries."""
        return {"datastore": self.store.stage("extract").digest, "algorithm": "none"}

    def worker(self) -> Callable[[], Any]:
        """Nobody: there are no units."""
        raise AssertionError("a clustering without clusters has no units")

    def finish(self, units: Sequence[Record]) -> Done:  # noqa: ARG002 - there are none
        """Say what there is to say."""
        entries = self.store.shape().entries
        ones = {"smallest": 1, "median": 1.0, "p99": 1.0, "largest": 1, "several_values": 0.0}
        counts = {"states": entries, "entries": entries, "empty": 0, "giants": []}
        none = {"inertia": 0.0, "mean_distance": 0.0, "histogram": f"1 {'#' * 40} {entries:,}"}
        return Done(facts={**counts, **ones, **none})
