"""The stage `cluster/NAME`: entries with close keys become states.

kmeans   train centroids on a sample, in units (kmeans_training.py; a checkpoint after every
         iteration), then give every entry the nearest one, in units                  (kmeans.py)
greedy   every entry absorbs near neighbours of equal value                           (greedy.py)
none     every entry is its own state; nothing is stored
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from retomaton_dist.clustering.greedy import EXACT_ENTRIES
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import ClusterSettings, IndexSettings
from retomaton_dist.stages.greedy import GreedyPlan
from retomaton_dist.stages.index import IndexPlan, plan_index
from retomaton_dist.stages.kmeans import KmeansPlan
from retomaton_dist.stages.kmeans_recipe import resolve
from retomaton_dist.stages.runner import Done, Plan, run_stage
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.manifest import Stage
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, StoreWriter


def check_fit(settings: ClusterSettings, shape: Shape) -> None:
    """Refuse what does not fit so many entries."""
    if settings.algorithm == "kmeans":
        resolve(settings, shape)


def cluster(writer: StoreWriter, settings: ClusterSettings, session: Session) -> Stage:
    """Run the stage, or what is missing of it; greedy merging of many entries makes an index."""
    store = Store.open(writer.path.resolve())
    if settings.algorithm == "greedy" and needs_index(store.shape()):
        run_stage(writer, usual_index(store, session), session)
        store = Store.open(store.path)
    return run_stage(writer, plan_cluster(store, settings, session), session)


def plan_cluster(store: Store, settings: ClusterSettings, session: Session) -> Plan[Any]:
    """The plan of the algorithm that was chosen."""
    blocking = Blocking(device="cuda" if session.has_gpu() else "cpu")
    name = settings.clustering
    if settings.algorithm == "none":
        return WithoutClustersPlan(store, name)
    if settings.algorithm == "greedy":
        index = usual_index(store, session).name if needs_index(store.shape()) else None
        return GreedyPlan(store, name, settings.neighbours, settings.seed, blocking, index)
    return KmeansPlan(store, name, resolve(settings, store.shape()), blocking)


def needs_index(shape: Shape) -> bool:
    """Whether greedy merging searches an index for neighbours, instead of comparing all pairs."""
    return shape.entries > EXACT_ENTRIES


def usual_index(store: Store, session: Session) -> IndexPlan:
    """The index that greedy merging searches: the one that default settings make."""
    return plan_index(store, IndexSettings(), session.settings.threads)


@dataclass(frozen=True)
class WithoutClustersPlan(Plan[range]):
    """Every entry is its own state: there is nothing to do and nothing to store."""

    store: Store
    clustering: str

    merges = True
    units: Sequence[range] = ()
    work: Sequence[float] = ()

    @property
    def name(self) -> str:
        """After the clustering."""
        return f"cluster/{self.clustering}"

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
