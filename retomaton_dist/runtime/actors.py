"""The one Ray actor of the system, whatever it works on, and the actors that a session keeps.

Actors stay from one stage to the next: starting a process that has imported torch takes seconds,
handing it another worker takes none.
"""

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import ray

from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.threads import limit_torch, thread_environment

ATTEMPTS = 3
# How long the first actor may wait for free CPUs or GPUs, and any other for its process.
START_SECONDS = 600.0
OPEN_SECONDS = 120.0
# A worker may take as long as a unit to be made, and this long at least: it imports and loads.
LEAST_MAKE_SECONDS = 60.0


class Host:
    """Holds one worker at a time, made on `start`, so that the worker's errors arrive as such."""

    def __init__(self) -> None:
        self._worker: Any = None

    def is_open(self) -> bool:
        """Whether the actor has a process and a place in the cluster: it answers."""
        return True

    def start(self, make: Callable[[], Any], threads: int) -> None:
        """Make the worker, in place of the one before."""
        self.rest()
        self._worker = make()
        limit_torch(threads)

    def rest(self) -> None:
        """Let go of the worker and all that it has loaded."""
        if self._worker is not None:
            self._worker = None
            gc.collect()
            # What is left are modules: looking through them again takes longer than many a unit.
            gc.freeze()

    def run(self, unit: Any) -> Any:
        """Do one unit."""
        return self._worker.run(unit)


class Starting(NamedTuple):
    """What an actor answers until it can work: that it is there, that its worker is made."""

    opened: Any
    made: Any


class Actors:
    """The actors of a crew, started when first needed; whoever loses one has it made anew."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._handles: dict[int, Any] = {}

    def give(self, place: int, make: Callable[[], Any]) -> Starting:
        """Have the actor at a place make a worker; return what to wait for."""
        if place not in self._handles:
            self._handles[place] = _opened(self.crew)
        handle = self._handles[place]
        return Starting(handle.is_open.remote(), handle.start.remote(make, self.crew.threads))

    def renew(self, place: int, make: Callable[[], Any]) -> Starting:
        """Put another actor in a place and have it make a worker, as `give` does."""
        self.retire(place)
        return self.give(place, make)

    def retire(self, place: int) -> None:
        """End the actor at a place; the next worker that is given to the place has another."""
        ray.kill(self._handles.pop(place))

    def __getitem__(self, place: int) -> Any:
        return self._handles[place]

    def rest(self) -> None:
        """Have all actors let go of their workers."""
        for handle in self._handles.values():
            handle.rest.remote()

    def close(self) -> None:
        """End all actors, whatever they are doing."""
        for place in list(self._handles):
            self.retire(place)


def _opened(crew: Crew) -> Any:
    options = {
        "num_cpus": crew.cpus,
        "num_gpus": crew.gpus,
        "runtime_env": {"env_vars": thread_environment(crew.threads)},
        # By itself Ray would fill one node before it takes the next.
        "scheduling_strategy": "SPREAD",
    }
    return ray.remote(Host).options(**options).remote()
