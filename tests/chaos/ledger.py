"""Counts how often units are done: a record that is written twice is work that was repeated."""

import contextlib
import os
import threading
from collections import defaultdict
from pathlib import Path

POLL_SECONDS = 0.02


class Ledger:
    """Watches the completion records below a store for as long as the block lasts.

    Looked at every few milliseconds: doing a unit takes longer than that.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._seen: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Ledger":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def repeated(self) -> int:
        """Units that were done once more although they had been done."""
        return sum(len(identities) - 1 for identities in list(self._seen.values()))

    def has_seen(self, path: str, identity: tuple[int, int]) -> bool:
        """Whether a record was looked at since it was last written."""
        return identity in self._seen.get(path, set())

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            for stages in (self._store, *self._evaluations()):
                self._look_into(str(stages / "stages"))

    def _evaluations(self) -> list[Path]:
        found: list[Path] = []
        with contextlib.suppress(OSError):
            for evaluation in (self._store / "evaluations").iterdir():
                found += [evaluation / "text", evaluation / "calibration"]
        return found

    def _look_into(self, folder: str) -> None:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    self._look_into(entry.path)
                elif entry.name.startswith("unit-"):
                    with contextlib.suppress(OSError):
                        found = entry.stat()
                        self._seen[entry.path].add((found.st_ino, found.st_mtime_ns))
