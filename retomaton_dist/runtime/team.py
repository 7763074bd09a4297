"""Members that each keep a part of the data and its state in memory, and are asked all at once.

For work in rounds whose state lives between rounds (k-means). A member whose actor is lost is made
anew and repeats the calls that its state rests on, so that nobody can tell the difference: in a new
actor or, where the cluster has no more room for one, in an actor that another member has already.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError

from retomaton_dist.errors import ClusterError, WorkerLost
from retomaton_dist.runtime.actors import (
    ATTEMPTS,
    LEAST_MAKE_SECONDS,
    OPEN_SECONDS,
    START_SECONDS,
    Actors,
    Starting,
    known_error,
)
from retomaton_dist.runtime.cluster import room_for
from retomaton_dist.runtime.progress import say
from retomaton_dist.runtime.waiting import LOOK_SECONDS, answer_of, check_cluster, wait_for


@dataclass(frozen=True)
class TeamCall:
    """A method and its arguments; large ones are references from `Team.share`."""

    method: str
    arguments: tuple[Any, ...]


class Members:
    """What an actor of a team holds: a member, and whoever else had to move there."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def adopt(self, member: int, make: Callable[[], Any]) -> None:
        """Make a member."""
        self._made[member] = make()

    def ask(self, member: int, method: str, *arguments: Any) -> Any:
        """Call a method of a member."""
        return getattr(self._made[member], method)(*arguments)


class Errand(NamedTuple):
    """What a member's actor was given to do: the last answer counts, each has its time.

    `made` is the answer that the member is made there, None if it was before.
    """

    handle: Any
    made: Any | None
    answers: list[Any]
    seconds: float


class Team:
    """As many actors as members, to begin with; results come in the members' order.

    `depth` is how many remembered calls a member's state rests on: the last ones are repeated
    when it had to be made anew. `seconds` limits every wait for an answer.
    """

    def __init__(
        self, actors: Actors, makes: Sequence[Callable[[], Any]], seconds: float, depth: int
    ) -> None:
        self._actors, self._makes, self._seconds = actors, makes, seconds
        self._journal: deque[TeamCall] = deque(maxlen=depth)
        self._home = list(range(len(makes)))
        self._made_in: dict[int, Any] = {}
        self._open({place: actors.give(place, Members) for place in self._home})
        self._ask_all([None] * len(makes))

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
        results = self._ask_all([call] * len(self))
        if remember:
            self._journal.append(call)
        return results

    def ask_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of as many members as there are arguments, each with its own."""
        return self._ask_all([TeamCall(method, given) for given in arguments])

    @staticmethod
    def share(value: Any) -> Any:
        """Put a large argument where all members of a node find it without a copy."""
        check_cluster(every=0)
        return ray.put(value)

    def _open(self, started: dict[int, Starting]) -> None:
        """Wait for actors: long for the first, which may have to wait for room in the cluster."""
        made = {starting.made: place for place, starting in started.items()}
        if not wait_for(list(made), START_SECONDS, count=1):
            raise ClusterError(
                f"no worker started within {START_SECONDS:.0f} s: the cluster's CPUs or GPUs are "
                f"taken by other work; `ray status` shows by what"
            )
        ready = wait_for(list(made), OPEN_SECONDS)
        for reference, place in made.items():
            if reference not in ready:
                self._move_from(place)
            elif _failed(reference):
                self._replace(place)

    def _ask_all(self, calls: Sequence[TeamCall | None]) -> list[Any]:
        """Have a call of each member answered; None has it made only."""
        asked = [self._give(member, call) for member, call in enumerate(calls)]
        return [self._settle(i, asked[i], call) for i, call in enumerate(calls)]

    def _give(self, member: int, call: TeamCall | None) -> Errand:
        """Hand a call to a member, which is made first, with its past, where it is not yet."""
        handle = self._actors[self._home[member]]
        calls = [call] if call else []
        if self._made_in.get(member) is handle:
            return Errand(handle, None, self._hand(handle, member, calls), self._seconds)
        made = handle.call.remote("adopt", member, self._makes[member])
        self._made_in[member] = handle
        answers = [made, *self._hand(handle, member, [*self._journal, *calls])]
        return Errand(handle, made, answers, max(self._seconds, LEAST_MAKE_SECONDS))

    @staticmethod
    def _hand(handle: Any, member: int, calls: Sequence[TeamCall]) -> list[Any]:
        return [handle.call.remote("ask", member, c.method, *c.arguments) for c in calls]

    def _settle(self, member: int, asked: Errand, call: TeamCall | None) -> Any:
        """Wait for an answer; if the actor is lost meanwhile, have another give it."""
        losses = 0
        while True:
            try:
                return [answer_of(one, asked.seconds) for one in asked.answers][-1]
            except RayTaskError as error:
                if known := known_error(error.cause):
                    raise known from error
                raise
            except RayError as error:
                losses += self._is_to_blame(member, asked)
                if losses == ATTEMPTS:
                    raise _lost(call, error) from error
            home = self._home[member]
            # Another member may have noticed before, and have had the actor replaced.
            if self._actors[home] is asked.handle:
                self._replace(home)
            asked = self._give(member, call)

    def _is_to_blame(self, member: int, asked: Errand) -> bool:
        """Whether a member may have cost its actor's life: not by moving in with a dying one."""
        if asked.made is None or self._home.count(self._home[member]) == 1:
            return True
        return bool(wait_for([asked.made], 0)) and not _failed(asked.made)

    def _replace(self, place: int) -> None:
        """Put a new actor in a place; if that is not to be, have its members go elsewhere."""
        for _ in range(ATTEMPTS if len(set(self._home)) == 1 else 1):
            if self._has_room() and self._opens(self._actors.renew(place, Members).made):
                return
        self._move_from(place)

    def _has_room(self) -> bool:
        """Whether the cluster could hold as many actors as there are; the last must have it."""
        places = len(set(self._home))
        return places == 1 or room_for(self._actors.crew) >= places

    def _opens(self, made: Any) -> bool:
        """Wait for an actor; a node may be lost before it counts as such, hence look again."""
        alone = len(set(self._home)) == 1
        deadline = time.monotonic() + (START_SECONDS if alone else OPEN_SECONDS)
        while time.monotonic() < deadline and self._has_room():
            if wait_for([made], LOOK_SECONDS):
                return not _failed(made)
        return False

    def _move_from(self, place: int) -> None:
        """Give up a place; its members move to where there are fewest."""
        others = sorted(set(self._home) - {place})
        if not others:
            raise WorkerLost(
                "the last worker is lost, and none started in its place; `ray status` shows what "
                "the cluster has left"
            )
        self._actors.retire(place)
        for member, home in enumerate(self._home):
            if home == place:
                self._home[member] = min(others, key=self._home.count)
        say(f"note: a worker is lost and has no successor; {len(others)} go on with its work")


def _failed(reference: Any) -> bool:
    """Whether an actor died instead of answering; an error of its own is no reason to go on."""
    try:
        answer_of(reference, OPEN_SECONDS)
    except RayTaskError:
        raise
    except RayError:
        return True
    return False


def _lost(call: TeamCall | None, error: Exception) -> WorkerLost:
    what = f"a worker asked to {call.method}" if call else "a worker that was starting"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return WorkerLost(f"{what} was lost {ATTEMPTS} times, the last time so: {reason}")
