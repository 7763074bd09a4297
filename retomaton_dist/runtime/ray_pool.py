"""Working off units with Ray actors: bounded work in flight, dead actors replaced, waits limited.

What an actor knows can be lost at any moment, so everything that counts is in the store: a unit
whose actor died is simply handed out again.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from retomaton_dist.errors import ClusterError, OutOfMemory, RetomatonError, WorkerLost
from retomaton_dist.runtime.actors import (
    ATTEMPTS,
    LEAST_MAKE_SECONDS,
    OPEN_SECONDS,
    START_SECONDS,
    Actors,
    Starting,
)
from retomaton_dist.runtime.bounded_waits import POLL_SECONDS, check_cluster
from retomaton_dist.runtime.cluster import first_line
from retomaton_dist.runtime.pool import Pool, Unit, Worker, known_error
from retomaton_dist.runtime.progress import say

IN_FLIGHT = 2
# How often records are looked for whose answers have not arrived, and how long these may be late.
RECORD_SECONDS = 5.0
ANSWER_SECONDS = 30.0


class _Task(NamedTuple, Generic[Unit]):
    """A unit that was handed to an actor: what messages call it, and the answer to wait for."""

    number: int
    unit: Unit
    answer: Any


@dataclass(eq=False)
class _Seat(Generic[Unit]):
    """One place of the crew: what its present actor has still to answer, in order.

    While it starts: that it is there, then that its worker is made. Afterwards its tasks.
    """

    place: int
    starting: deque[Any]
    tasks: deque[_Task[Unit]] = field(default_factory=deque)
    since: float = field(default_factory=time.monotonic)
    failed_starts: int = 0

    @property
    def started(self) -> bool:
        return not self.starting

    @property
    def opening(self) -> bool:
        return len(self.starting) == len(Starting._fields)

    @property
    def front(self) -> Any:
        return self.starting[0] if self.starting else self.tasks[0].answer

    @property
    def busy(self) -> bool:
        return bool(self.starting or self.tasks)


def _nothing() -> None:
    """Do nothing."""


class RayPool(Pool[Unit]):
    """Actors at work; `on_ready` is called when the first of them has started.

    A lost actor is replaced and its units are done again, each at most three times; as long as it
    cannot be replaced, the other actors do all the work, for good if its successors die, too,
    before they have started. When all is well the actors stay with the session; when not, they end
    here, so that nothing is done behind the caller's back.
    """

    def __init__(
        self,
        actors: Actors,
        make: Callable[[], Worker[Unit]],
        unit_seconds: float,
        on_ready: Callable[[], None] = _nothing,
    ) -> None:
        self.actors, self.make, self.unit_seconds = actors, make, unit_seconds
        self.on_ready = on_ready
        self.waiting: deque[tuple[int, Unit]] = deque()
        self.lost: Counter[int] = Counter()
        self.seats: list[_Seat[Unit]] = []
        self.places = 0
        self.someone_since = time.monotonic()
        self.recorded: Callable[[Unit], bool] | None = None
        self.recorded_since: dict[Any, float] = {}
        self.looked = 0.0

    def close(self) -> None:
        """Have the actors let go of their workers, or end them if any is still at work."""
        if any(seat.busy for seat in self.seats):
            self.actors.close()
        else:
            self.actors.rest()

    def run(
        self,
        units: Sequence[Unit],
        numbers: Sequence[int] | None = None,
        recorded: Callable[[Unit], bool] | None = None,
    ) -> Iterator[tuple[Unit, Any]]:
        """Hand units out and yield them as they finish; see `Pool`."""
        self.lost.clear()
        self.recorded_since.clear()
        self.recorded = recorded
        self.waiting = deque(zip(numbers or range(len(units)), units, strict=True))
        while self.places < min(self.actors.crew.workers, len(units)):
            starting = self.actors.give(self.places, self.make)
            self.seats.append(_Seat(self.places, deque(starting)))
            self.places += 1
        self.someone_since = time.monotonic()
        self._hand_out()
        while self.waiting or any(seat.tasks for seat in self.seats):
            fronts = {seat.front: seat for seat in self.seats if seat.busy}
            ready, _ = ray.wait(list(fronts), timeout=POLL_SECONDS)
            for reference in ready:
                yield from self._settle(fronts[reference], reference)
            yield from self._settle_recorded()
            self._hand_out()
            self._check_clocks()

    def _settle(self, seat: _Seat[Unit], reference: Any) -> Iterator[tuple[Unit, Any]]:
        try:
            result = ray.get(reference, timeout=self.unit_seconds)
        except RayTaskError as error:
            if known := known_error(error.cause):
                raise known from error
            raise
        except RayError as error:
            # Actors, nodes and objects die in many ways, all of which end with a new actor.
            self._replace(seat, error)
            return
        if seat.starting:
            seat.starting.popleft()
            if seat.started:
                seat.failed_starts = 0
                self.on_ready()
                self.on_ready = _nothing
        else:
            yield seat.tasks.popleft().unit, result
        seat.since = time.monotonic()

    def _settle_recorded(self) -> Iterator[tuple[Unit, Any]]:
        """Count units as done that are recorded though their answers are late.

        So they are when the network parts this process from a worker's host and both still see the
        head. Such a worker is replaced: it would not hear of other units either.
        """
        now = time.monotonic()
        if self.recorded is None or now - self.looked < RECORD_SECONDS:
            return
        self.looked = now
        for seat in self.seats:
            if not seat.tasks or not self.recorded(seat.tasks[0].unit):
                continue
            since = self.recorded_since.setdefault(seat.front, now)
            if now - since >= ANSWER_SECONDS and not ray.wait([seat.front], timeout=0)[0]:
                units = [task.unit for task in seat.tasks if self.recorded(task.unit)]
                seat.tasks = deque(task for task in seat.tasks if task.unit not in units)
                self._renew(seat)
                say("note: a worker does not answer, but has recorded its unit: it is replaced")
                yield from ((unit, None) for unit in units)

    def _hand_out(self) -> None:
        """A unit for every started worker, and a second while there are enough for all."""
        started = [seat for seat in self.seats if seat.started]
        for seat in started:
            if self.waiting and not seat.tasks:
                seat.since = time.monotonic()
                self._give(seat)
        for seat in started:
            # A unit that lost its worker stays alone: its answer may have been lost because the
            # unit behind it was the deadly one.
            while len(self.waiting) > len(self.seats) and (
                len(seat.tasks) < IN_FLIGHT and not self.lost[seat.tasks[0].number]
            ):
                self._give(seat)

    def _give(self, seat: _Seat[Unit]) -> None:
        number, unit = self.waiting.popleft()
        seat.tasks.append(_Task(number, unit, self.actors[seat.place].run.remote(unit)))

    def _replace(self, seat: _Seat[Unit], error: Exception) -> None:
        """Put a new actor in the seat; only the unit it was working on counts as tried."""
        if seat.tasks:
            blamed = seat.tasks[0].number
            self.lost[blamed] += 1
            if self.lost[blamed] >= ATTEMPTS:
                raise _lost_for_good(f"unit {blamed}", error)
        else:
            seat.failed_starts += 1
        if seat.failed_starts >= ATTEMPTS:
            self._give_up(seat, error)
        else:
            self._renew(seat)

    def _renew(self, seat: _Seat[Unit]) -> None:
        """Put a new actor in the seat and hand out again what the old one has not done."""
        self.waiting.extendleft((task.number, task.unit) for task in reversed(seat.tasks))
        seat.tasks.clear()
        seat.starting = deque(self.actors.renew(seat.place, self.make))
        seat.since = time.monotonic()

    def _give_up(self, seat: _Seat[Unit], error: Exception) -> None:
        """Go on without a seat whose actors die before they can work, as long as there are more."""
        if len(self.seats) == 1:
            raise _lost_for_good("starting a worker", error)
        self.seats.remove(seat)
        self.actors.retire(seat.place)
        say(
            f"note: a worker died {ATTEMPTS} times while starting, at last so: "
            f"{first_line(error)}; {len(self.seats)} go on"
        )

    def _check_clocks(self) -> None:
        check_cluster()
        now = time.monotonic()
        if not all(seat.opening for seat in self.seats):
            self.someone_since = now
        elif now - self.someone_since > START_SECONDS:
            raise ClusterError(
                f"no worker started within {START_SECONDS:.0f} s: the cluster's CPUs or GPUs are "
                f"taken by other work, or its nodes are gone; `ray status` shows which"
            )
        for seat in list(self.seats):
            least = 0.0 if seat.started else LEAST_MAKE_SECONDS
            limit = OPEN_SECONDS if seat.opening else max(self.unit_seconds, least)
            # While the caller was busy with another unit, this one may have been finished.
            if not seat.busy or now - seat.since <= limit or ray.wait([seat.front], timeout=0)[0]:
                continue
            if seat.opening:
                # No node has a place for it, or its process is stuck before it is ours: try again.
                self._renew(seat)
            else:
                self._replace(seat, TimeoutError(f"no answer within {limit:g} s"))


def _lost_for_good(what: str, error: Exception) -> RetomatonError:
    reason = first_line(error)
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
