"""What a command and all processes below it use, for benchmarks; by itself it measures nothing.

Read from /proc, five times a second. Memory is that of no file (RssAnon): pages of mapped files are
the page cache's, and shared by all who map them. Bytes are what was read from and written to the
disk, and what was asked for by calls, which is also counted where the page cache had it.
"""

import os
import subprocess
import threading
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

SECONDS = 0.2
TICKS = os.sysconf("SC_CLK_TCK")
COUNTED = ("read_bytes", "write_bytes", "rchar", "wchar")


@dataclass
class Usage:
    """Seconds, also of all cores together, bytes by kind, and each role's largest process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    code: int = 0
    output: str = ""
    bytes: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    processes: int = 0

    def as_json(self):
        kept = asdict(self)
        del kept["output"]
        return kept


def run_watched(line, **options):
    """Run a command; return what it used. Its stdout is kept, its stderr is the caller's."""
    start = time.perf_counter()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, **options)
    watcher = Watcher(process.pid)
    thread = threading.Thread(target=watcher.watch)
    thread.start()
    output = process.stdout.read()
    # Its counters go with it, so it is looked at before it is waited for.
    watcher.done.set()
    thread.join()
    code = process.wait()
    seconds = time.perf_counter() - start
    counted, peaks = watcher.total(), dict(watcher.peaks)
    spent = sum(watcher.spent.values())
    return Usage(seconds, spent, code, output, counted, peaks, len(watcher.last))


class Watcher:
    """Follows the processes below one of them."""

    def __init__(self, root):
        self.root, self.done = root, threading.Event()
        self.peaks = defaultdict(int)
        self.last, self.parents, self.moved = {}, {}, set()
        self.spent = {}

    def watch(self):
        """Look until told that it is done, and once more."""
        while not self.done.wait(SECONDS):
            self.look()
        self.look()

    def look(self):
        """Look at all processes once."""
        alive = {}
        for pid, parent, spent in _below(self.root):
            alive[pid], self.spent[pid] = parent, spent
        before = dict(self.last)
        for pid in alive:
            if (counted := _counted(pid)) is not None:
                self.last[pid] = counted
                role = role_of(pid, self.root)
                self.peaks[role] = max(self.peaks[role], _own_memory(pid))
        for pid in self.parents.keys() - alive.keys() - self.moved:
            self._bury(pid, before)
        self.parents |= alive

    def _bury(self, pid, before):
        """A process that ended: who waited for it has its bytes in its own counters now."""
        self.moved.add(pid)
        parent, mine = self.parents[pid], self.last.get(pid)
        if mine and parent in before and parent in self.last:
            grown = self.last[parent]["rchar"] - before[parent]["rchar"]
            if grown >= mine["rchar"]:
                self.last[pid] = dict.fromkeys(COUNTED, 0)

    def total(self):
        """Bytes of all processes, by kind."""
        return {name: sum(counted[name] for counted in self.last.values()) for name in COUNTED}


def role_of(pid, root):
    """Driver, worker (an actor of Ray's) or ray (what belongs to Ray itself)."""
    if pid == root:
        return "driver"
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "ray"
    return "worker" if line.startswith(b"ray::") else "ray"


def _below(root):
    """All processes below one, and itself: number, parent, and CPU seconds of its own."""
    children, known = defaultdict(list), {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                # Behind the name, which may hold anything, even blanks and brackets.
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid, parent, ticks = int(path.name), int(fields[1]), int(fields[11]) + int(fields[12])
            known[pid] = pid, parent, ticks / TICKS
            children[parent].append(pid)
    found, waiting = [], [root] if root in known else []
    while waiting:
        found.append(known[waiting.pop()])
        waiting += children[found[-1][0]]
    return found


def _counted(pid):
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    found = {name: int(value) for name, value in (line.split(":") for line in lines)}
    return {name: found[name] for name in COUNTED}


def _own_memory(pid):
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in text.splitlines() if line.startswith("RssAnon:")]
    return 1024 * int(found[0]) if found else 0
