"""Where one fault happens: the command that it disturbs, and everything that it may strike."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.chaos.bench import Bench, Target
from tests.chaos.disk import Disk
from tests.chaos.nodes import Nodes, end
from tests.chaos.running import Job, Process, Running

WORKERS = 3
UNIT_TIMEOUT = 15.0
POLL_SECONDS = 0.02
LOOK_SECONDS = 0.2  # finding actors is a walk over all processes


@dataclass
class Scene:
    """One trial's surroundings. `chosen` draws what is struck, always the same for one seed.

    `hit` is how many workers may lose what they were doing.
    """

    bench: Bench
    nodes: Nodes
    disk: Disk
    target: Target
    chosen: random.Random
    patience: float
    hit: int = WORKERS
    run: Running | None = None
    stopped: list[psutil.Process] = field(default_factory=list)
    damaged: str = ""
    sound: bytes = b""
    unmet: bool = False  # damaged behind a run's back: the next one is to meet it
    second: Running | None = None

    @property
    def store(self) -> Path:
        """The store that the command writes, or reads."""
        return self.disk.folder / "trial.store"

    def start(self) -> Running:
        """Start the target's command; the same again is a rerun.

        An index is served first if it is to be; if that is refused, the command is not needed.
        """
        self.nodes.ready()
        if self.target.name == "served" and not self.nodes.actors("ShardServer"):
            self.run = self.command("serve-index", str(self.store))
            if self.run.ended(self.patience).code != 0:
                return self.run
        self.run = self.begin()
        return self.run

    def begin(self) -> Running:
        """The target's command, on the cluster as it is."""
        command, *flags = self.target.arguments
        if command == "job":
            toml = self.bench.folder / "job.toml"
            self.bench.write_job(toml, self.store, UNIT_TIMEOUT)
            return Job(self.nodes.dashboard, toml, self.nodes.folder / "session_latest" / "logs")
        return self.command(command, str(self.store), *flags, *self.workers())

    def workers(self) -> tuple[str, ...]:
        """Flags of every command that has workers."""
        return ("--workers", str(WORKERS), "--unit-timeout", str(UNIT_TIMEOUT),
                "--progress", "json")  # fmt: skip

    def command(self, *arguments: str) -> Process:
        """Any other command of ours on this cluster."""
        return Process([*arguments, "--address", self.nodes.address], self.bench.folder)

    def reached(self, step: int) -> bool:
        """Wait until the command has gone so far; False if it has ended before.

        Step 0 is when its first actor appears.
        """
        assert self.run is not None
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            if self.run.steps >= step if step else self.nodes.actors():
                return not self.run.over()
            if self.run.over():
                return False
            time.sleep(POLL_SECONDS if step else LOOK_SECONDS)
        return False

    def pick(self, processes: list[psutil.Process]) -> psutil.Process:
        """One of some processes."""
        return self.chosen.choice(processes)

    def heal(self) -> None:
        """Take away what caused trouble, as whoever reruns a command would first."""
        for process in self.stopped:
            end(process, family=True)
        self.stopped.clear()
        if self.disk.real:
            self.disk.set_writable(True)
            self.disk.free()
        if self.unmet:
            self.unmet = False
        elif self.damaged:
            path = self.store / self.damaged
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.sound)
            self.damaged, self.sound = "", b""

    def end_commands(self) -> None:
        """End what is still under way, at once."""
        for running in (self.run, self.second):
            if running is not None and not running.over():
                running.ended(0)

    def leave(self) -> None:
        """Make way for the next trial; this one's store is not needed any more."""
        self.damaged, self.unmet = "", False
        self.heal()
        for actor in self.nodes.actors():
            end(actor)
        # Ray would start its actors again, on the next trial's store.
        if self.nodes.actors("ShardServer"):
            stop = self.command("serve-index", str(self.store), "--stop")
            if stop.ended(self.patience).code != 0:
                self.nodes.close()
