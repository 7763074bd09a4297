"""Actors that each keep a part of the data and its state in memory, and are asked all at once.

For work in rounds whose state lives between rounds (k-means). An actor that is lost is made anew
and repeats the calls that its state rests on, so that nobody can tell the difference.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayActorError, RayTaskError

from retomaton_dist.errors import WorkerLost
from retomaton_dist.runtime.actor import ATTEMPTS, START_SECONDS, known_error, open_actor
from retomaton_dist.runtime.cluster import Crew


@dataclass(frozen=True)
class Call:
    """A method and its arguments; large ones are references from `Team.share`."""

    method: str
    arguments: tuple[Any, ...]


class Team:
    """One actor per member; calls go to all of them, results come in the members' order.

    `depth` is how many remembered calls a member's state rests on: the last ones are repeated
    when its actor had to be made anew. `seconds` limits every wait for an answer.
    """

    def __init__(
        self, crew: Crew, makes: Sequence[Callable[[], Any]], seconds: float, depth: int
    ) -> None:
        self._crew, self._makes, self._seconds = crew, makes, seconds
        self._journal: deque[Call] = deque(maxlen=depth)
        opened = [open_actor(crew, make) for make in makes]
        self._actors = [actor for actor, _ in opened]
        for member, (_, started) in enumerate(opened):
            self._settle(member, started, START_SECONDS, None)

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            ray.kill(actor)

    def __len__(self) -> int:
        return len(self._actors)

    def ask(self, method: str, *arguments: Any, remember: bool = False) -> list[Any]:
        """Call a method of every member; with `remember`, its effect outlives lost actors."""
        call = Call(method, arguments)
        given = [_give(actor, call) for actor in self._actors]
        results = [
            self._settle(i, reference, self._seconds, call) for i, reference in enumerate(given)
        ]
        if remember:
            self._journal.append(call)
        return results

    def ask_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of as many members as there are arguments, each with its own."""
        calls = [Call(method, given) for given in arguments]
        given = [_give(actor, call) for actor, call in zip(self._actors, calls, strict=False)]
        return [
            self._settle(member, reference, self._seconds, call)
            for member, (reference, call) in enumerate(zip(given, calls, strict=True))
        ]

    @staticmethod
    def share(value: Any) -> Any:
        """Put a large argument where all members of a node find it without a copy."""
        return ray.put(value)

    def _settle(self, member: int, reference: Any, seconds: float, call: Call | None) -> Any:
        """Wait for an answer; if the actor is lost meanwhile, have a new one give it."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return ray.get(reference, timeout=seconds)
            except RayTaskError as error:
                if known := known_error(error.cause):
                    raise known from error
                raise
            except (RayActorError, OutOfMemoryError, GetTimeoutError) as error:
                if attempt == ATTEMPTS:
                    raise _lost(call, error) from error
            reference = self._renew(member, call)
        raise AssertionError("the last attempt returns or raises")

    def _renew(self, member: int, call: Call | None) -> Any:
        ray.kill(self._actors[member])
        actor, last = open_actor(self._crew, self._makes[member])
        self._actors[member] = actor
        # An actor runs its calls in order, so waiting for the last one waits for all.
        for past in [*self._journal, *([call] if call else [])]:
            last = _give(actor, past)
        return last


def _give(actor: Any, call: Call) -> Any:
    return actor.call.remote(call.method, *call.arguments)


def _lost(call: Call | None, error: Exception) -> WorkerLost:
    what = f"a worker asked to {call.method}" if call else "a worker that was starting"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return WorkerLost(f"{what} was lost {ATTEMPTS} times, the last time so: {reason}")
