"""A real Ray cluster of several nodes on this machine: one raylet each, to be killed or stopped."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.jobs.cluster import BIN, free_ports, stop

PATIENCE = 120.0
# A node that is gone is noticed within seconds instead of half a minute.
QUICK = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}
STORE_BYTES = 100 << 20


@dataclass(frozen=True)
class Raylet:
    """One node, by its name and its raylet."""

    name: str
    raylet: psutil.Process

    def kill(self):
        """End the raylet as if its machine had been switched off."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [self.raylet, *self.raylet.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def actors(self):
        """The processes of actors on this node."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [child for child in self.raylet.children() if "ray::Host" in _line(child)]
        return []


class Raylets:
    """A head without CPUs to work with, and nodes that are added to it by name."""

    def __init__(self, folder, cpus=0):
        self.folder = folder
        # The token is explicit: one left by an earlier local Ray must not matter.
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
        self.environment = {**os.environ, **QUICK, **token, "PATH": f"{BIN}:{os.environ['PATH']}"}
        self.environment.pop("RAY_ADDRESS", None)
        port, dashboard, client = free_ports(3)
        self.address, self.dashboard = f"127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}"
        self.nodes = {}
        flags = {
            "head": None,
            "port": port,
            "dashboard-port": dashboard,
            "include-dashboard": "true",
            "ray-client-server-port": client,
            "temp-dir": folder,
        }
        self._start("head", cpus, flags, {}, ())

    def add(self, name, cpus=2, environment=(), wrapped=()):
        """Start a node; `wrapped` is a command that runs it in surroundings of its own."""
        return self._start(name, cpus, {"address": self.address}, dict(environment), wrapped)

    def _start(self, name, cpus, flags, environment, wrapped):
        common = {
            "node-ip-address": "127.0.0.1",
            "node-name": name,
            "num-cpus": cpus,
            "num-gpus": 0,
            "object-store-memory": STORE_BYTES,
            "dashboard-agent-listen-port": free_ports(1)[0],
            "disable-usage-stats": None,
        }
        line = [f"--{key}" if value is None else f"--{key}={value}"
                for key, value in (flags | common).items()]  # fmt: skip
        before = self._raylets()
        started = subprocess.run(
            [*wrapped, BIN / "ray", "start", *line],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert started.returncode == 0, started.stdout + started.stderr
        (raylet,) = self._raylets() - before
        self.nodes[name] = Raylet(name, raylet)
        return self.nodes[name]

    def head(self):
        """The process that knows the cluster, and that everybody asks."""
        (found,) = self._processes("gcs_server")
        return found

    def _raylets(self):
        return self._processes("raylet")

    def _processes(self, name):
        return {
            process
            for process in psutil.process_iter()
            if _name(process) == name and f"{self.folder}/" in _line(process)
        }


@contextlib.contextmanager
def raylets(cpus=0):
    """A head in a folder with a short name: sockets in it may not have long ones."""
    folder = Path(tempfile.mkdtemp(prefix="rn", dir="/tmp"))
    cluster = Raylets(folder, cpus)
    try:
        yield cluster
    finally:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition, what):
    """Return what the condition gives once it gives anything."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


def _name(process):
    with contextlib.suppress(psutil.Error):
        return process.name()
    return ""


def _line(process):
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
