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
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError

from retomaton_dist.errors import ClusterError, OutOfMemory, RetomatonError, WorkerLost
from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.threads import limit_torch, thread_environment

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Given = TypeVar("Given", contravariant=True)
Made = TypeVar("Made", covariant=True)

IN_FLIGHT = 2
ATTEMPTS = 3
START_SECONDS = 600.0
POLL_SECONDS = 1.0


class Worker(Protocol[Given, Made]):
    """What an actor holds; made anew, from the same arguments, when its actor is lost."""

    def run(self, unit: Given) -> Made:
        """Do one unit durably and return what is worth reporting of it."""
        ...


class Host:
    """The actor: makes its worker on `start`, so that the worker's errors arrive as such."""

    def start(self, make: Callable[[], Worker[Any, Any]], threads: int) -> None:
        """Make the worker."""
        self._worker = make()
        limit_torch(threads)

    def run(self, unit: Any) -> Any:
        """Do one unit."""
        return self._worker.run(unit)


@dataclass(eq=False)
class _Seat(Generic[Unit]):
    """One place of the crew: its present actor and what that actor has been given, in order."""

    actor: Any
    starting: Any
    given: deque[tuple[Any, Unit]] = field(default_factory=deque)
    since: float = field(default_factory=time.monotonic)

    def front(self) -> Any:
        return self.starting if self.starting is not None else self.given[0][0]

    def busy(self) -> bool:
        return self.starting is not None or bool(self.given)


def run_units(
    crew: Crew,
    make: Callable[[], Worker[Unit, Result]],
    units: Sequence[Unit],
    unit_seconds: float,
    on_ready: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Unit, Result]]:
    """Have every unit done once by the crew; yield units with their results as they finish.

    `on_ready` is called when the first worker has started.

    An error raised by the worker ends the run and is raised here as it is. A lost actor is
    replaced and its units are done again, each at most three times. Actors end with the iterator.
    """
    pool = _Pool(crew, make, units, unit_seconds, on_ready)
    try:
        yield from pool.run()
    finally:
        pool.close()


class _Pool(Generic[Unit, Result]):
    def __init__(
        self,
        crew: Crew,
        make: Callable[[], Worker[Unit, Result]],
        units: Sequence[Unit],
        unit_seconds: float,
        on_ready: Callable[[], None],
    ) -> None:
        self.crew, self.make, self.unit_seconds = crew, make, unit_seconds
        self.on_ready: Callable[[], None] | None = on_ready
        self.waiting = deque(enumerate(units))
        self.lost: Counter[int | str] = Counter()
        self.seats: list[_Seat[tuple[int, Unit]]] = []

    def run(self) -> Iterator[tuple[Unit, Result]]:
        self.seats = [self._open() for _ in range(min(self.crew.workers, len(self.waiting)))]
        while any(seat.busy() for seat in self.seats):
            fronts = {seat.front(): seat for seat in self.seats if seat.busy()}
            ready, _ = ray.wait(list(fronts), timeout=POLL_SECONDS)
            for reference in ready:
                yield from self._settle(fronts[reference], reference)
            self._check_clocks()

    def close(self) -> None:
        for seat in self.seats:
            ray.kill(seat.actor)

    def _open(self) -> _Seat[tuple[int, Unit]]:
        environment = {"env_vars": thread_environment(self.crew.threads)}
        actor = (
            ray.remote(Host)
            .options(num_cpus=self.crew.cpus, num_gpus=self.crew.gpus, runtime_env=environment)
            .remote()
        )
        return _Seat(actor, actor.start.remote(self.make, self.crew.threads))

    def _settle(
        self, seat: _Seat[tuple[int, Unit]], reference: Any
    ) -> Iterator[tuple[Unit, Result]]:
        try:
            result = ray.get(reference)
        except RayTaskError as error:
            raise _application_error(error) from error
        except (RayActorError, OutOfMemoryError) as error:
            self._replace(seat, error)
            return
        if seat.starting is not None:
            seat.starting = None
            self._tell_ready()
        else:
            _, (_, unit) = seat.given.popleft()
            yield unit, result
        seat.since = time.monotonic()
        self._hand_out(seat)

    def _tell_ready(self) -> None:
        if self.on_ready:
            self.on_ready()
            self.on_ready = None

    def _hand_out(self, seat: _Seat[tuple[int, Unit]]) -> None:
        while self.waiting and len(seat.given) < IN_FLIGHT:
            numbered = self.waiting.popleft()
            seat.given.append((seat.actor.run.remote(numbered[1]), numbered))

    def _replace(self, seat: _Seat[tuple[int, Unit]], error: Exception) -> None:
        """Put a new actor in the seat; only the unit it was working on counts as tried."""
        blamed = seat.given[0][1][0] if seat.given else "start"
        self.lost[blamed] += 1
        if self.lost[blamed] >= ATTEMPTS:
            raise _lost_for_good(blamed, error)
        ray.kill(seat.actor)
        self.waiting.extendleft(numbered for _, numbered in reversed(seat.given))
        fresh = self._open()
        seat.actor, seat.starting, seat.since = fresh.actor, fresh.starting, fresh.since
        seat.given.clear()

    def _check_clocks(self) -> None:
        now = time.monotonic()
        for seat in self.seats:
            if seat.starting is not None and now - seat.since > START_SECONDS:
                raise ClusterError(
                    f"a worker did not start within {START_SECONDS:.0f} s: the cluster's CPUs or "
                    f"GPUs are taken by other work; `ray status` shows by what"
                )
            if seat.given and seat.starting is None and now - seat.since > self.unit_seconds:
                self._replace(seat, TimeoutError(f"no answer within {self.unit_seconds:g} s"))


def _application_error(error: Exception) -> Exception:
    cause = getattr(error, "cause", None)
    if isinstance(cause, RetomatonError):
        return cause
    if isinstance(cause, MemoryError):
        return OutOfMemory(f"a worker ran out of memory ({cause}); lower --workers or batch sizes")
    return error


def _lost_for_good(blamed: int | str, error: Exception) -> RetomatonError:
    what = "starting a worker" if blamed == "start" else f"unit {blamed}"
    reason = str(error).strip().splitlines()[0]
    if isinstance(error, OutOfMemoryError):
        return OutOfMemory(
            f"{what} ran out of memory {ATTEMPTS} times; lower --workers, --batch-tokens or the "
            f"unit's size ({reason})"
        )
    return WorkerLost(f"{what} lost its worker {ATTEMPTS} times, the last time so: {reason}")
