"""Working off units with Ray actors: bounded work in flight, dead actors replaced, waits limited.

What an actor knows can be lost at any moment, so everything that counts is in the store: a unit
whose actor died is simply handed out again.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from retomaton_dist.errors import ClusterError, OutOfMemory, RetomatonError, WorkerLost
from retomaton_dist.runtime.actors import ATTEMPTS, START_SECONDS, Actors, known_error

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Given = TypeVar("Given", contravariant=True)
Made = TypeVar("Made", covariant=True)

IN_FLIGHT = 2
POLL_SECONDS = 1.0
START = "start"


class Worker(Protocol[Given, Made]):
    """What an actor holds; made anew, from the same arguments, when its actor is lost."""

    def run(self, unit: Given) -> Made:
        """Do one unit durably and return what is worth reporting of it."""
        ...


@dataclass(eq=False)
class _Seat(Generic[Unit]):
    """One place of the crew: what its present actor has been given, in order."""

    place: int
    starting: Any
    given: deque[tuple[Any, Unit]] = field(default_factory=deque)
    since: float = field(default_factory=time.monotonic)

    def front(self) -> Any:
        return self.starting if self.starting is not None else self.given[0][0]

    def busy(self) -> bool:
        return self.starting is not None or bool(self.given)


class Pool(Generic[Unit, Result]):
    """A crew at work on units of one kind, in one round or several.

    `on_ready` is called when the first worker has started.

    An error raised by the worker ends the run and is raised here as it is. A lost actor is
    replaced and its units are done again, each at most three times; as long as it cannot be
    replaced, the other actors do all the work. When all is well the actors stay with the session;
    when not, they end here, so that nothing is done behind the caller's back.
    """

    def __init__(
        self,
        actors: Actors,
        make: Callable[[], Worker[Unit, Result]],
        unit_seconds: float,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.actors, self.make, self.unit_seconds = actors, make, unit_seconds
        self.on_ready: Callable[[], None] | None = on_ready
        self.waiting: deque[tuple[int, Unit]] = deque()
        self.lost: Counter[int | str] = Counter()
        self.seats: list[_Seat[tuple[int, Unit]]] = []

    def __enter__(self) -> "Pool[Unit, Result]":
        return self

    def __exit__(self, *_: object) -> None:
        if any(seat.busy() for seat in self.seats):
            self.actors.close()
        else:
            self.actors.rest()

    def run(
        self, units: Sequence[Unit], numbers: Sequence[int] | None = None
    ) -> Iterator[tuple[Unit, Result]]:
        """Have every unit done once; yield units with their results as they finish.

        `numbers` are what messages call the units by; if not given, their places in the sequence.
        A round must be finished before the next.
        """
        self.lost.clear()
        self.waiting = deque(zip(numbers or range(len(units)), units, strict=True))
        while len(self.seats) < min(self.actors.crew.workers, len(units)):
            place = len(self.seats)
            self.seats.append(_Seat(place, self.actors.give(place, self.make)))
        self._hand_out()
        while self.waiting or any(seat.given for seat in self.seats):
            fronts = {seat.front(): seat for seat in self.seats if seat.busy()}
            ready, _ = ray.wait(list(fronts), timeout=POLL_SECONDS)
            for reference in ready:
                yield from self._settle(fronts[reference], reference)
            self._hand_out()
            self._check_clocks()

    def _settle(
        self, seat: _Seat[tuple[int, Unit]], reference: Any
    ) -> Iterator[tuple[Unit, Result]]:
        try:
            result = ray.get(reference)
        except RayTaskError as error:
            if known := known_error(error.cause):
                raise known from error
            raise
        except RayError as error:
            # Actors, nodes and objects die in many ways, all of which end with a new actor.
            self._replace(seat, error)
            return
        if seat.starting is not None:
            seat.starting = None
            self.lost[START] = 0
            self._tell_ready()
        else:
            _, (_, unit) = seat.given.popleft()
            yield unit, result
        seat.since = time.monotonic()

    def _tell_ready(self) -> None:
        if self.on_ready:
            self.on_ready()
            self.on_ready = None

    def _hand_out(self) -> None:
        """A unit for every started worker, and a second while there are enough for all."""
        started = [seat for seat in self.seats if seat.starting is None]
        for seat in started:
            if self.waiting and not seat.given:
                seat.since = time.monotonic()
                self._give(seat)
        for seat in started:
            while len(self.waiting) > len(self.seats) and self._takes_more(seat):
                self._give(seat)

    def _takes_more(self, seat: _Seat[tuple[int, Unit]]) -> bool:
        # A unit that lost its worker stays alone: its answer may have been lost because the unit
        # behind it was the deadly one.
        return len(seat.given) < IN_FLIGHT and not self.lost[seat.given[0][1][0]]

    def _give(self, seat: _Seat[tuple[int, Unit]]) -> None:
        numbered = self.waiting.popleft()
        seat.given.append((self.actors[seat.place].run.remote(numbered[1]), numbered))

    def _replace(self, seat: _Seat[tuple[int, Unit]], error: Exception) -> None:
        """Put a new actor in the seat; only the unit it was working on counts as tried."""
        blamed = seat.given[0][1][0] if seat.given else START
        self.lost[blamed] += 1
        if self.lost[blamed] >= ATTEMPTS:
            raise _lost_for_good(blamed, error)
        self.waiting.extendleft(numbered for _, numbered in reversed(seat.given))
        seat.given.clear()
        seat.starting = self.actors.renew(seat.place, self.make)
        seat.since = time.monotonic()

    def _check_clocks(self) -> None:
        now = time.monotonic()
        if all(
            seat.starting is not None and now - seat.since > START_SECONDS for seat in self.seats
        ):
            raise ClusterError(
                f"no worker started within {START_SECONDS:.0f} s: the cluster's CPUs or GPUs are "
                f"taken by other work; `ray status` shows by what"
            )
        for seat in self.seats:
            late = bool(seat.given) and now - seat.since > self.unit_seconds
            # While the caller was busy with another unit, this one may have been finished.
            if late and not ray.wait([seat.front()], timeout=0)[0]:
                self._replace(seat, TimeoutError(f"no answer within {self.unit_seconds:g} s"))


def _lost_for_good(blamed: int | str, error: Exception) -> RetomatonError:
    what = "starting a worker" if blamed == START else f"unit {blamed}"
    reason = str(error).strip().splitlines()[0].rstrip(".")
    if isinstance(error, OutOfMemoryError):
        return OutOfMemory(
            f"{what} ran out of memory {ATTEMPTS} times; lower --workers, --batch-tokens or the "
            f"unit's size ({reason})"
        )
    advice = (
        "raise --unit-timeout if it only needs longer"
        if isinstance(error, TimeoutError)
        else "if memory ran out (`dmesg` tells), lower --workers or --batch-tokens"
    )
    return WorkerLost(f"{what} lost its worker {ATTEMPTS} times, at last so: {reason}; {advice}")
