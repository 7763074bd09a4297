"""The one Ray actor of the system, whatever it works on, and the actors that a session keeps.

Actors stay from one stage to the next: starting a process that has imported torch takes seconds,
handing it another worker takes none.
"""

import gc
from collections.abc import Callable
from typing import Any

import ray

from retomaton_dist.errors import OutOfMemory, RetomatonError
from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.threads import limit_torch, thread_environment

ATTEMPTS = 3
START_SECONDS = 600.0


class Host:
    """Holds one worker at a time, made on `start`, so that the worker's errors arrive as such."""

    def __init__(self) -> None:
        self._worker: Any = None

    def start(self, make: Callable[[], Any], threads: int) -> None:
        """Make the worker, in place of the one before."""
        self.rest()
        self._worker = make()
        limit_torch(threads)

    def rest(self) -> None:
        """Let go of the worker and all that it has loaded."""
        self._worker = None
        gc.collect()

    def run(self, unit: Any) -> Any:
        """Do one unit."""
        return self._worker.run(unit)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call any method of the worker; references among the arguments arrive as their values."""
        return getattr(self._worker, method)(*arguments)


class Actors:
    """The actors of a crew, started when first needed; whoever loses one has it made anew."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._handles: list[Any] = []

    def give(self, place: int, make: Callable[[], Any]) -> Any:
        """Have the actor at a place make a worker; return the reference that waits for it."""
        while len(self._handles) <= place:
            self._handles.append(_opened(self.crew))
        return self._handles[place].start.remote(make, self.crew.threads)

    def renew(self, place: int, make: Callable[[], Any]) -> Any:
        """Put another actor in a place and have it make a worker, as `give` does."""
        ray.kill(self._handles[place])
        self._handles[place] = _opened(self.crew)
        return self.give(place, make)

    def __getitem__(self, place: int) -> Any:
        return self._handles[place]

    def rest(self) -> None:
        """Have all actors let go of their workers."""
        for handle in self._handles:
            handle.rest.remote()

    def close(self) -> None:
        """End all actors, whatever they are doing."""
        for handle in self._handles:
            ray.kill(handle)
        self._handles.clear()


def _opened(crew: Crew) -> Any:
    environment = {"env_vars": thread_environment(crew.threads)}
    options = {"num_cpus": crew.cpus, "num_gpus": crew.gpus, "runtime_env": environment}
    return ray.remote(Host).options(**options).remote()


def known_error(cause: Exception) -> RetomatonError | None:
    """What a worker raised, if it is for the user to read; anything else is a bug."""
    if isinstance(cause, RetomatonError):
        return cause
    if isinstance(cause, MemoryError):
        return OutOfMemory(f"a worker ran out of memory ({cause}); lower --workers or batch sizes")
    return None
