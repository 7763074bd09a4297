"""The same work without Ray: workers of this process, one unit after the other."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retomaton_dist.runtime.actors import known_error
from retomaton_dist.runtime.threads import torch_limited


class PoolHere:
    """Stands where a `Pool` does. There is nobody to lose, and no limit to a unit's time."""

    def __init__(
        self, make: Callable[[], Any], threads: int, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self._make, self._threads, self._on_ready = make, threads, on_ready
        self._worker: Any = None

    def __enter__(self) -> "PoolHere":
        return self

    def __exit__(self, *_: object) -> None:
        self._worker = None

    def run(
        self,
        units: Sequence[Any],
        numbers: Sequence[int] | None = None,  # noqa: ARG002 - only lost units are named
    ) -> Iterator[tuple[Any, Any]]:
        """Do every unit once; yield units with their results."""
        for unit in units:
            with _as_in_an_actor(self._threads):
                if self._worker is None:
                    self._worker = self._make()
                    self._on_ready()
                result = self._worker.run(unit)
            yield unit, result


@contextlib.contextmanager
def _as_in_an_actor(threads: int) -> Iterator[None]:
    """As many threads as an actor would have, and its errors as an actor's would arrive."""
    try:
        with torch_limited(threads):
            yield
    except MemoryError as error:
        raise known_error(error) or error from error
