"""Where the time of an evaluation goes: the LM, searches, walks, and the rest."""

import contextlib
import time
from collections.abc import Iterator

PARTS = ("lm", "search", "walk")


class Stopwatch:
    """Seconds by part; a part inside another counts for itself alone."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*PARTS, "rest"), 0.0)
        self._part, self._since = "rest", time.perf_counter()

    @contextlib.contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Have what happens in the block count for `part`."""
        before = self._switch(part)
        try:
            yield
        finally:
            self._switch(before)

    def stop(self) -> dict[str, float]:
        """Seconds of every part until now, and their sum."""
        self._switch(self._part)
        return {**self.seconds, "total": sum(self.seconds.values())}

    def _switch(self, part: str) -> str:
        now, before = time.perf_counter(), self._part
        self.seconds[before] += now - self._since
        self._part, self._since = part, now
        return before
