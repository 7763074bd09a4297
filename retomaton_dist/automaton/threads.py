"""Sharing work out to threads. Kernels hold no GIL, so plain threads are enough."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Threads:
    """A few threads that take equal shares of work; the calling thread is one of them.

    Which share a piece of work falls into never changes its result.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._others = ThreadPoolExecutor(count - 1) if count > 1 else None

    def run(self, work: Callable[[int], None], shares: int) -> None:
        """Call `work` with 0..shares-1, each in a thread; errors are raised here."""
        if self._others is None or shares == 1:
            for share in range(shares):
                work(share)
            return
        waiting = [self._others.submit(work, share) for share in range(1, shares)]
        work(0)
        for future in waiting:
            future.result()

    def close(self) -> None:
        """End the threads."""
        if self._others is not None:
            self._others.shutdown()
