"""The one Ray actor of the system, whatever it works on, and the errors that come out of it."""

from collections.abc import Callable
from typing import Any

import ray

from retomaton_dist.errors import OutOfMemory, RetomatonError
from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.threads import limit_torch, thread_environment

ATTEMPTS = 3
START_SECONDS = 600.0


class Host:
    """Makes its worker on `start`, so that the worker's errors arrive as such."""

    def start(self, make: Callable[[], Any], threads: int) -> None:
        """Make the worker."""
        self._worker = make()
        limit_torch(threads)

    def run(self, unit: Any) -> Any:
        """Do one unit."""
        return self._worker.run(unit)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call any method of the worker; references among the arguments arrive as their values."""
        return getattr(self._worker, method)(*arguments)


def open_actor(crew: Crew, make: Callable[[], Any]) -> tuple[Any, Any]:
    """Start an actor of the crew's size; return it and the reference that waits for its start."""
    environment = {"env_vars": thread_environment(crew.threads)}
    actor = (
        ray.remote(Host)
        .options(num_cpus=crew.cpus, num_gpus=crew.gpus, runtime_env=environment)
        .remote()
    )
    return actor, actor.start.remote(make, crew.threads)


def known_error(cause: Exception) -> RetomatonError | None:
    """What a worker raised, if it is for the user to read; anything else is a bug."""
    if isinstance(cause, RetomatonError):
        return cause
    if isinstance(cause, MemoryError):
        return OutOfMemory(f"a worker ran out of memory ({cause}); lower --workers or batch sizes")
    return None
