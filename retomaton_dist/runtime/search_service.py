"""`SearchService`: the same searches, done by one Ray actor per shard.

The caller sends its queries to every shard's actor and merges what they find; no actor stands in
between. Actors are named, so that any number of jobs can share them, and are restarted by Ray
when they die; a call whose actor died is sent again until its time is over.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from retomaton_dist.errors import ClusterError, WorkerLost
from retomaton_dist.runtime.actors import START_SECONDS
from retomaton_dist.runtime.bounded_waits import answer_of
from retomaton_dist.runtime.cluster import Crew, check_fits
from retomaton_dist.runtime.pool import known_error
from retomaton_dist.runtime.shard_server import ShardServer
from retomaton_dist.runtime.threads import thread_environment
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.search.library import faiss
from retomaton_dist.search.merge import Found
from retomaton_dist.search.parameters import NONE, Parameters
from retomaton_dist.search.searcher import Searcher
from retomaton_dist.search.shard import Queries
from retomaton_dist.settings import ServeSettings, WorkerSettings
from retomaton_dist.storage.canonical import Json

NAMESPACE = "retomaton"
CALL_SECONDS = 300.0
STATUS_SECONDS = 30.0
PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Place:
    """What each actor of a service may use. Without CPUs of its own it shares those of others."""

    cpus: float = 0.0
    gpu: bool = False
    threads: int = 1


ANYWHERE = Place()


def choose_place(settings: ServeSettings, workers: WorkerSettings) -> Place:
    """What the actors get on the cluster that is joined: a GPU each if it and FAISS have them."""
    there = bool(ray.cluster_resources().get("GPU")) and hasattr(faiss, "StandardGpuResources")
    if settings.device == "cuda" and not there:
        raise ClusterError("--device cuda: the cluster has no GPU, or FAISS is not faiss-gpu")
    gpu = there if settings.device is None else settings.device == "cuda"
    return Place(workers.cpus_per_worker or 0.0, gpu, workers.threads)


class SearchService(Searcher):
    """Searches an index with actors; made by `start`, `serve` or `connect`."""

    def __init__(
        self,
        opened: IndexFiles,
        chosen: Parameters,
        name: str,
        *,
        owned: bool,
        seconds: float = CALL_SECONDS,
    ) -> None:
        super().__init__(opened.layout, chosen)
        self.name, self._owned, self._seconds = name, owned, seconds
        self._numbers = range(len(opened.layout.spans))
        self._actors = [_find(name, number) for number in self._numbers]

    @classmethod
    def start(
        cls,
        opened: IndexFiles,
        chosen: Parameters = NONE,
        place: Place = ANYWHERE,
        seconds: float = CALL_SECONDS,
    ) -> "SearchService":
        """Start actors for this process alone; they end with it, or with `close`."""
        name = f"{service_name(opened)} for {uuid.uuid4().hex}"
        # The handles must outlive the look-up by name: Ray ends an actor nobody holds.
        handles = _start(opened, chosen, place, name, detached=False)
        service = cls(opened, chosen, name, owned=True, seconds=seconds)
        service._actors = handles
        return service

    @classmethod
    def serve(
        cls, opened: IndexFiles, chosen: Parameters = NONE, place: Place = ANYWHERE
    ) -> "SearchService":
        """Start actors that outlive this process, for all that connect to the cluster."""
        name = service_name(opened)
        if is_served(opened):
            raise _served_already(name, opened)
        _start(opened, chosen, place, name, detached=True)
        return cls(opened, chosen, name, owned=False)

    @classmethod
    def connect(cls, opened: IndexFiles, seconds: float = CALL_SECONDS) -> "SearchService":
        """Use the service that serves this index on the cluster that this process has joined."""
        if not ray.is_initialized():
            raise ClusterError(
                "this process has joined no Ray cluster; `ray.init(address=...)` first, with the "
                "address that `retomaton serve-index` was given or has printed"
            )
        service = cls(opened, NONE, service_name(opened), owned=False, seconds=seconds)
        # Like a search, this waits for an actor that is being started again.
        asked = _Asked(service._actors[0].parameters.remote)
        service.parameters = service._answer(0, asked, time.monotonic() + seconds)
        return service

    def search_shards(self, queries: Queries, k: int, widen: int) -> Sequence[Found]:
        """Ask all shards at once and wait for each; a shard whose actor died is asked again."""
        deadline = time.monotonic() + self._seconds
        shared = ray.put(queries)
        asked = [_Asked(partial(actor.search.remote, shared, k, widen)) for actor in self._actors]
        return [self._answer(number, asked[number], deadline) for number in self._numbers]

    def status(self) -> list[Json]:
        """What every shard's actor says of itself."""
        found: list[Json] = self._answers([actor.status.remote() for actor in self._actors])
        return found

    def close(self) -> None:
        """End the actors if they were started for this process alone."""
        if self._owned:
            self.stop()

    def stop(self) -> None:
        """End the actors, whoever uses them."""
        for actor in self._actors:
            ray.kill(actor)

    def _answers(self, asked: Sequence[Any]) -> list[Any]:
        try:
            return [answer_of(reference, STATUS_SECONDS) for reference in asked]
        except RayTaskError:
            raise
        except RayError as error:
            raise WorkerLost(
                f"an actor of {self.name} does not answer, it may be starting again; ask later"
            ) from error

    def _answer(self, number: int, asked: "_Asked", deadline: float) -> Any:
        while True:
            try:
                return answer_of(asked.reference, max(0, deadline - time.monotonic()))
            except RayTaskError as error:
                if known := known_error(error.cause):
                    raise known from error
                raise
            except RayError as error:
                # Actors, nodes and objects die in many ways; Ray starts the actor again.
                if _actor(self.name, number) is None:
                    raise ClusterError(
                        f"{self.name} was stopped; start it again with `retomaton serve-index`"
                    ) from None
                if time.monotonic() >= deadline:
                    raise self._late(number) from error
                time.sleep(PAUSE_SECONDS)
                asked.again()

    def _late(self, number: int) -> WorkerLost:
        return WorkerLost(
            f"shard {number} of {self.name} did not answer within {self._seconds:g} s; its node "
            f"may be overloaded: use more shards, or search fewer queries at once"
        )


@dataclass
class _Asked:
    """A call that was sent to an actor, and how to send it."""

    send: Callable[[], Any]
    reference: Any = field(init=False)

    def __post_init__(self) -> None:
        self.again()

    def again(self) -> None:
        self.reference = self.send()


def service_name(opened: IndexFiles) -> str:
    """The name under which an index is served: the store's path and the index's name."""
    return f"{opened.store} index {opened.layout.name}"


def is_served(opened: IndexFiles) -> bool:
    """Whether the cluster has the service of this index."""
    return _actor(service_name(opened), 0) is not None


def _start(
    opened: IndexFiles, chosen: Parameters, place: Place, name: str, *, detached: bool
) -> list[Any]:
    """Start an actor per shard and wait until each has opened its own."""
    parameters = {**opened.layout.parameters, **chosen}
    numbers = range(len(opened.layout.spans))
    if place.cpus or place.gpu:
        check_fits(Crew(len(numbers), place.cpus, float(place.gpu), place.threads))
    options = {
        "num_cpus": place.cpus,
        "num_gpus": 1 if place.gpu else 0,
        "runtime_env": {"env_vars": thread_environment(place.threads)},
        "scheduling_strategy": "SPREAD",
        "max_restarts": -1,
        "namespace": NAMESPACE,
        "lifetime": "detached" if detached else None,
    }
    actors: list[Any] = []
    try:
        for number in numbers:
            made = ray.remote(ShardServer).options(name=_actor_name(name, number), **options)
            actors.append(made.remote(opened, number, parameters, place.threads, gpu=place.gpu))
        deadline = time.monotonic() + START_SECONDS
        for reference in [actor.ready.remote() for actor in actors]:
            answer_of(reference, max(0, deadline - time.monotonic()))
    except (RayError, ValueError) as error:
        for actor in actors:
            ray.kill(actor)
        if len(actors) < len(numbers):
            # Somebody else has taken the name since it was looked for.
            raise _served_already(name, opened) from error
        if known := known_error(getattr(error, "cause", error)):
            raise known from error
        raise ClusterError(
            f"{name} did not start: {str(error).strip().splitlines()[-1]}; `ray status` shows what "
            f"the cluster is busy with"
        ) from error
    return actors


def _served_already(name: str, opened: IndexFiles) -> ClusterError:
    return ClusterError(
        f"{name} is served already; `retomaton serve-index {opened.store} --status` shows it, "
        f"--stop ends it"
    )


def _find(name: str, number: int) -> Any:
    found = _actor(name, number)
    if found is None:
        raise ClusterError(
            f"{name} is not served on this cluster; `retomaton serve-index STORE --address ...` "
            f"serves it"
        )
    return found


def _actor(name: str, number: int) -> Any | None:
    """The actor of a shard, if the cluster has one; it may be starting again."""
    try:
        return ray.get_actor(_actor_name(name, number), namespace=NAMESPACE)
    except ValueError:
        return None


def _actor_name(name: str, number: int) -> str:
    return f"{name} shard {number:05d}"
