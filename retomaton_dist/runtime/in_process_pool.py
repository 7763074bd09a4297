"""The same work without Ray: a worker of this process, one unit after the other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retomaton_dist.runtime.pool import Pool, Unit, Worker, known_error
from retomaton_dist.runtime.threads import torch_limited


class InProcessPool(Pool[Unit]):
    """One worker in this process: no unit is lost, and none has a time limit.

    It has as many threads as an actor would have, and its errors arrive as an actor's would.
    """

    def __init__(
        self,
        make: Callable[[], Worker[Unit]],
        threads: int,
        on_ready: Callable[[], None] = lambda: None,
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
            yield unit, self._result(unit)

    def _result(self, unit: Unit) -> Any:
        try:
            with torch_limited(self._threads):
                if self._worker is None:
                    self._worker = self._make()
                    self._on_ready()
                return self._worker.run(unit)
        except MemoryError as error:
            raise known_error(error) or error from error

    def close(self) -> None:
        """Let go of the worker."""
        self._worker = None
