"""Actors that each keep a part of the data and its state in memory, and are asked all at once.

For work in rounds whose state lives between rounds (k-means). An actor that is lost is made anew
and repeats the calls that its state rests on, so that nobody can tell the difference.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from retomaton_dist.errors import WorkerLost
from retomaton_dist.runtime.actors import ATTEMPTS, START_SECONDS, Actors, known_error


@dataclass(frozen=True)
class TeamCall:
    """A method and its arguments; large ones are references from `Team.share`."""

    method: str
    arguments: tuple[Any, ...]


class Team:
    """One actor per member; calls go to all of them, results come in the members' order.

    `depth` is how many remembered calls a member's state rests on: the last ones are repeated
    when its actor had to be made anew. `seconds` limits every wait for an answer.
    """

    def __init__(
        self, actors: Actors, makes: Sequence[Callable[[], Any]], seconds: float, depth: int
    ) -> None:
        self._actors, self._makes, self._seconds = actors, makes, seconds
        self._journal: deque[TeamCall] = deque(maxlen=depth)
        started = [actors.give(member, make) for member, make in enumerate(makes)]
        for member, reference in enumerate(started):
            self._settle(member, reference, START_SECONDS, None)

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._actors.rest()
        else:
            self._actors.close()

    def __len__(self) -> int:
        return len(self._makes)

    def ask(self, method: str, *arguments: Any, remember: bool = False) -> list[Any]:
        """Call a method of every member; with `remember`, its effect outlives lost actors."""
        call = TeamCall(method, arguments)
        given = [self._give(member, call) for member in range(len(self))]
        results = [
            self._settle(i, reference, self._seconds, call) for i, reference in enumerate(given)
        ]
        if remember:
            self._journal.append(call)
        return results

    def ask_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of as many members as there are arguments, each with its own."""
        calls = [TeamCall(method, given) for given in arguments]
        given = [self._give(member, call) for member, call in enumerate(calls)]
        return [
            self._settle(member, reference, self._seconds, call)
            for member, (reference, call) in enumerate(zip(given, calls, strict=True))
        ]

    @staticmethod
    def share(value: Any) -> Any:
        """Put a large argument where all members of a node find it without a copy."""
        return ray.put(value)

    def _settle(self, member: int, reference: Any, seconds: float, call: TeamCall | None) -> Any:
        """Wait for an answer; if the actor is lost meanwhile, have a new one give it."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return ray.get(reference, timeout=seconds)
            except RayTaskError as error:
                if known := known_error(error.cause):
                    raise known from error
                raise
            except RayError as error:
                if attempt == ATTEMPTS:
                    raise _lost(call, error) from error
            reference = self._renew(member, call)
        raise AssertionError("the last attempt returns or raises")

    def _renew(self, member: int, call: TeamCall | None) -> Any:
        last = self._actors.renew(member, self._makes[member])
        # An actor runs its calls in order, so waiting for the last one waits for all.
        for past in [*self._journal, *([call] if call else [])]:
            last = self._give(member, past)
        return last

    def _give(self, member: int, call: TeamCall) -> Any:
        return self._actors[member].call.remote(call.method, *call.arguments)


def _lost(call: TeamCall | None, error: Exception) -> WorkerLost:
    what = f"a worker asked to {call.method}" if call else "a worker that was starting"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return WorkerLost(f"{what} was lost {ATTEMPTS} times, the last time so: {reason}")
