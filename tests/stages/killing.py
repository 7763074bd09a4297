"""`retomaton` in processes of its own, with a Ray of its own, to be killed under way."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

from retomaton_dist.storage import records
from tests.conftest import ROOT

PATIENCE = 200.0


def wait_for(condition, what):
    """Return what the condition gives once it gives anything."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.005)
    return found


@dataclass
class Running:
    """A command under way, and the store that it writes."""

    process: subprocess.Popen
    store: object

    @classmethod
    def start(cls, command, store, flags):
        """Start `retomaton COMMAND STORE FLAGS` with a local Ray that nobody else uses."""
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        keep = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        line = [sys.executable, "-m", "retomaton_dist.cli", command, str(store), *flags]
        process = subprocess.Popen(
            line,
            cwd=ROOT,
            env=keep | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return cls(process, store)

    def wait_for_units(self, stage, count):
        """Wait until so many units of a stage are done."""

        def enough():
            assert self.process.poll() is None, f"ended too early: {self.process.communicate()}"
            return len(records.finished(self.store, stage)) >= count

        wait_for(enough, f"{count} units of {stage}")

    def descendants(self):
        """Everything that this command started: Ray's own processes and the actors."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def actors(self):
        """The processes of its actors."""
        return [process for process in self.descendants() if _is_actor(process)]

    def kill_actors(self):
        """SIGKILL all actors."""
        actors = wait_for(self.actors, "an actor")
        for actor in actors:
            actor.kill()

    def kill(self, *, with_actors=False):
        """SIGKILL the driver; return when all that it started and that could write is gone too."""
        family = [process for process in self.descendants() if not _is_agent(process)]
        if with_actors:
            self.kill_actors()
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        wait_for(lambda: not any(map(_alive, family)), "the end of all that the driver started")

    def finish(self):
        """Wait for the command's end; return its exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


def _alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_actor(process):
    return "ray::Host" in _line(process)


def _is_agent(process):
    """Ray's agents know nothing of stores, and take a minute to notice that their node is gone."""
    return "Agent" in _line(process)


def _line(process):
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def traces(store, stage):
    """Identity and time of every file that the finished units of a stage wrote."""
    found = {}
    for unit in records.finished(store, stage):
        value = records.folder(store, stage) / f"unit-{unit:05d}.json"
        for name in [value, *_files_of(store, value)]:
            found[name] = (name.stat().st_ino, name.stat().st_mtime_ns)
    return found


def _files_of(store, record):
    return [store / name for name in json.loads(record.read_bytes())["files"]]
