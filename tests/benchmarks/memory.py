"""The memory of this process, for benchmarks; run by itself it measures nothing."""

import threading
from pathlib import Path


def own_memory():
    """Bytes of this process that are no file's: maps are shared by all who have them."""
    text = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


class Peak:
    """The most memory that was seen while the block ran: `bytes`."""

    def __enter__(self):
        self.bytes, self._done = 0, threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._watcher.join()

    def _watch(self):
        while not self._done.wait(0.005):
            self.bytes = max(self.bytes, own_memory())
