"""`SearchService`: the same searches, done by one Ray actor per shard.

The caller sends its queries to every shard's actor and merges what they find; no actor stands in
between. Actors are named, so that any number of jobs can share them, and are restarted by Ray
when they die; a call whose actor died is sent again until its time is over.
"""

import time
from collections.abc import Callable, Sequence
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


def service_crew(opened: IndexFiles, settings: ServeSettings, workers: WorkerSettings) -> Crew:
    """An actor per shard; each has a GPU if the cluster and FAISS can use one.

    Without CPUs of their own, which is usual, actors share those of others.
    """
    has_gpu = bool(ray.cluster_resources().get("GPU")) and hasattr(faiss, "StandardGpuResources")
    if settings.device == "cuda" and not has_gpu:
        raise ClusterError("--device cuda: the cluster has no GPU, or FAISS is not faiss-gpu")
    gpu = has_gpu if settings.device is None else settings.device == "cuda"
    cpus = workers.cpus_per_worker or 0.0
    return Crew(len(opened.layout.spans), cpus, float(gpu), workers.threads)


class SearchService(Searcher):
    """Searches an index with the actors that serve it; made by `serve` or `connect`."""

    def __init__(
        self, opened: IndexFiles, chosen: Parameters, seconds: float = CALL_SECONDS
    ) -> None:
        super().__init__(opened.layout, chosen)
        self.name, self._seconds = service_name(opened), seconds
        actors = [_actor(self.name, number) for number in range(len(opened.layout.spans))]
        if None in actors:
            raise ClusterError(
                f"{self.name} is not served on this cluster; `retomaton serve-index STORE "
                f"--address ...` serves it"
            )
        self._actors: list[Any] = actors

    @classmethod
    def serve(
        cls, opened: IndexFiles, chosen: Parameters = NONE, crew: Crew | None = None
    ) -> "SearchService":
        """Start actors that outlive this process, for all that connect to the cluster."""
        _start(opened, chosen, crew or Crew(len(opened.layout.spans), 0.0, 0.0, 1))
        return cls(opened, chosen)

    @classmethod
    def connect(cls, opened: IndexFiles) -> "SearchService":
        """Use the service that serves this index on the cluster that this process has joined."""
        if not ray.is_initialized():
            raise ClusterError(
                "this process has joined no Ray cluster; `ray.init(address=...)` first, with the "
                "address that `retomaton serve-index` was given or has printed"
            )
        service = cls(opened, NONE)
        # Like a search, this waits for an actor that is being started again.
        send, deadline = service._actors[0].parameters.remote, time.monotonic() + service._seconds
        service.parameters = service._answer(0, send, send(), deadline)
        return service

    def search_shards(self, queries: Queries, k: int, widen: int) -> Sequence[Found]:
        """Ask all shards at once and wait for each; a shard whose actor died is asked again."""
        deadline = time.monotonic() + self._seconds
        shared = ray.put(queries)
        sends = [partial(actor.search.remote, shared, k, widen) for actor in self._actors]
        sent = [send() for send in sends]
        return [
            self._answer(number, send, reference, deadline)
            for number, (send, reference) in enumerate(zip(sends, sent, strict=True))
        ]

    def status(self) -> list[Json]:
        """What every shard's actor says of itself."""
        sent = [actor.status.remote() for actor in self._actors]
        try:
            return [answer_of(reference, STATUS_SECONDS) for reference in sent]
        except RayTaskError:
            raise
        except RayError as error:
            raise WorkerLost(
                f"an actor of {self.name} does not answer, it may be starting again; ask later"
            ) from error

    def close(self) -> None:
        """Leave the actors running: others may use them."""

    def stop(self) -> None:
        """End the actors, whoever uses them."""
        for actor in self._actors:
            ray.kill(actor)

    def _answer(self, number: int, send: Callable[[], Any], reference: Any, deadline: float) -> Any:
        """The answer to a call of a shard's actor, which is sent again if the actor dies."""
        while True:
            try:
                return answer_of(reference, max(0, deadline - time.monotonic()))
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
                    raise WorkerLost(
                        f"shard {number} of {self.name} did not answer within {self._seconds:g} "
                        f"s; its node may be overloaded: use more shards, or search fewer queries "
                        f"at once"
                    ) from error
                time.sleep(PAUSE_SECONDS)
                reference = send()


def service_name(opened: IndexFiles) -> str:
    """The name under which an index is served: the store's path and the index's name."""
    return f"{opened.store} index {opened.layout.name}"


def is_served(opened: IndexFiles) -> bool:
    """Whether the cluster has the service of this index."""
    return _actor(service_name(opened), 0) is not None


def _start(opened: IndexFiles, chosen: Parameters, crew: Crew) -> None:
    """Start an actor per shard and wait until each has opened its own."""
    name, parameters = service_name(opened), {**opened.layout.parameters, **chosen}
    served_already = ClusterError(
        f"{name} is served already; `retomaton serve-index {opened.store} --status` shows it, "
        f"--stop ends it"
    )
    if is_served(opened):
        raise served_already
    if crew.cpus or crew.gpus:
        check_fits(crew)
    options = {
        "num_cpus": crew.cpus,
        "num_gpus": crew.gpus,
        "runtime_env": {"env_vars": thread_environment(crew.threads)},
        "scheduling_strategy": "SPREAD",
        "max_restarts": -1,
        "namespace": NAMESPACE,
        "lifetime": "detached",
    }
    actors: list[Any] = []
    try:
        for number in range(crew.workers):
            made = ray.remote(ShardServer).options(name=_actor_name(name, number), **options)
            gpu = bool(crew.gpus)
            actors.append(made.remote(opened, number, parameters, crew.threads, gpu=gpu))
        deadline = time.monotonic() + START_SECONDS
        for reference in [actor.ready.remote() for actor in actors]:
            answer_of(reference, max(0, deadline - time.monotonic()))
    except (RayError, ValueError) as error:
        for actor in actors:
            ray.kill(actor)
        if len(actors) < crew.workers:
            # Somebody else has taken the name since it was looked for.
            raise served_already from error
        if known := known_error(getattr(error, "cause", error)):
            raise known from error
        raise ClusterError(
            f"{name} did not start: {str(error).strip().splitlines()[-1]}; `ray status` shows what "
            f"the cluster is busy with"
        ) from error


def _actor(name: str, number: int) -> Any | None:
    """The actor of a shard, if the cluster has one; it may be starting again."""
    try:
        return ray.get_actor(_actor_name(name, number), namespace=NAMESPACE)
    except ValueError:
        return None


def _actor_name(name: str, number: int) -> str:
    return f"{name} shard {number:05d}"
