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

    def run(self, work: Callable[[int, slice], None], rows: int) -> None:
        """Cut 0..rows-1 into a part per thread; call `work` with its number and the part.

        Numbers are below `count`; with fewer rows than threads, some threads get none. Errors are
        raised here.
        """
        shares = min(self.count, rows)
        parts = [slice(i * rows // shares, (i + 1) * rows // shares) for i in range(shares)]
        if self._others is None or shares < 2:
            for share, part in enumerate(parts):
                work(share, part)
            return
        waiting = [self._others.submit(work, i, parts[i]) for i in range(1, shares)]
        work(0, parts[0])
        for future in waiting:
            future.result()

    def close(self) -> None:
        """End the threads."""
        if self._others is not None:
            self._others.shutdown()
