"""What does the units of a stage: workers, in actors of Ray or in this process.

Another executor is another `Pool`, and a line in `Session.pool` that chooses it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from retomaton_dist.errors import OutOfMemory, RetomatonError
from retomaton_dist.runtime.threads import torch_limited

Unit = TypeVar("Unit")
Given = TypeVar("Given", contravariant=True)


class Worker(Protocol[Given]):
    """Does units; made anew, from the same arguments, when its process is lost."""

    def run(self, unit: Given) -> Any:
        """Do one unit durably and return what is worth reporting of it."""
        ...


class Pool(ABC, Generic[Unit]):
    """Workers that do units of one kind, in one round or several, until the block ends."""

    def __enter__(self) -> "Pool[Unit]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def run(
        self,
        units: Sequence[Unit],
        numbers: Sequence[int] | None = None,
        recorded: Callable[[Unit], bool] | None = None,
    ) -> Iterator[tuple[Unit, Any]]:
        """Have every unit done once; yield units with their results as they finish.

        `numbers` are what messages call the units by; if not given, their places in the sequence.
        `recorded` tells whether a unit has left its completion record: such a unit is done even if
        its worker's answer does not arrive, and its result is None. A round must be finished
        before the next. What a worker raises ends the run and is raised here as it is.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the workers; units that were not waited for are ended."""


def known_error(cause: BaseException) -> RetomatonError | None:
    """What a worker raised, if it is for the user to read; anything else is a bug."""
    if isinstance(cause, RetomatonError):
        return cause
    if isinstance(cause, MemoryError):
        return OutOfMemory(f"a worker ran out of memory ({cause}); lower --workers or batch sizes")
    return None


class InProcessPool(Pool[Unit]):
    """One worker in this process: no unit is lost, and none has a time limit.

    It has as many threads as an actor would have, and its errors arrive as an actor's would.
    """

    def __init__(
        self, make: Callable[[], Worker[Unit]], threads: int, on_ready: Callable[[], None]
    ) -> None:
        self._make, self._threads, self._on_ready = make, threads, on_ready
        self._worker: Worker[Unit] | None = None

    def run(
        self,
        units: Sequence[Unit],
        numbers: Sequence[int] | None = None,  # noqa: ARG002 - names of units that are lost
        recorded: Callable[[Unit], bool] | None = None,  # noqa: ARG002 - no answer is lost
    ) -> Iterator[tuple[Unit, Any]]:
        """Do every unit once; yield units with their results."""
        for unit in units:
            try:
                with torch_limited(self._threads):
                    if self._worker is None:
                        self._worker = self._make()
                        self._on_ready()
                    result = self._worker.run(unit)
            except MemoryError as error:
                raise known_error(error) or error from error
            yield unit, result

    def close(self) -> None:
        """Let go of the worker."""
        self._worker = None
