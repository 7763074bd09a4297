"""A cluster of three raylets on this machine, with a folder, ports and a token of its own.

Everything it consists of is found by that folder's name, so that nothing else is ever struck.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.jobs.cluster import BIN, free_ports, stop

RAYLETS = 3
START_SECONDS = 180.0
OBJECT_STORE = 100_000_000
# Ray's own limits are made for networks: a stopped raylet would count as alive for a minute.
IMPATIENT = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "6000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}


def environment() -> dict[str, str]:
    """What every process of the cluster, and whoever joins it, is started with."""
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "fedcba9876543210" * 4}
    return {**kept, **own, **IMPATIENT, "PATH": f"{BIN}:{kept['PATH']}"}


@dataclass
class Nodes:
    """The cluster: started when first asked for, mended or started anew when something is gone."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="rc", dir="/tmp")))
    address: str = ""
    dashboard: str = ""
    starts: int = 0

    def ready(self) -> None:
        """Have a GCS and all raylets, none of them stopped."""
        whole = self.address and self.gcs() and self.head() and not _any_stopped(self.daemons())
        if not whole:
            self.close()
            self._start_head()
        while len(self.raylets()) < RAYLETS:
            _start({"address": self.address, "dashboard-agent-listen-port": free_ports(1)[0]})

    def close(self) -> None:
        """End everything, stopped or not."""
        # Actors hide the folder's name behind a title of their own.
        for raylet in self.raylets():
            end(raylet, family=True)
        stop(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def raylets(self) -> list[psutil.Process]:
        """All raylets, the head's first."""
        found = [p for p in self.daemons() if _name(p) == "raylet"]
        return sorted(found, key=lambda p: ("--head" not in _parts(p), p.create_time()))

    def head(self) -> psutil.Process | None:
        """The raylet that drivers are attached to."""
        return next((p for p in self.raylets() if "--head" in _parts(p)), None)

    def others(self) -> list[psutil.Process]:
        """The raylets that only actors live on."""
        return [p for p in self.raylets() if "--head" not in _parts(p)]

    def gcs(self) -> psutil.Process | None:
        """Ray's directory of everything; without it the cluster is lost."""
        return next((p for p in self.daemons() if _name(p) == "gcs_server"), None)

    def actors(self, kind: str = "Host") -> list[psutil.Process]:
        """Processes of actors of one class, in the order in which they began."""
        children = [child for raylet in self.raylets() for child in _children(raylet)]
        found = [p for p in children if any(f"ray::{kind}" in part for part in _parts(p))]
        return sorted(found, key=lambda p: p.create_time())

    def place_of(self, process: psutil.Process) -> str:
        """Which raylet a process belongs to, for people."""
        with contextlib.suppress(psutil.Error):
            for number, raylet in enumerate(self.raylets()):
                if raylet.pid in (process.pid, process.ppid()):
                    return "the head" if number == 0 else f"node {number}"
        return "a lost node"

    def daemons(self) -> list[psutil.Process]:
        """Living processes of Ray itself that name this cluster's folder."""
        return [p for p in psutil.process_iter() if _ours(p, str(self.folder))]

    def _start_head(self) -> None:
        port, dashboard, agent, client = free_ports(4)
        self.dashboard = f"http://127.0.0.1:{dashboard}"
        self.starts += 1
        _start(
            {
                "head": "",
                "port": port,
                "dashboard-port": dashboard,
                "dashboard-agent-listen-port": agent,
                "ray-client-server-port": client,
                "temp-dir": self.folder,
                "include-dashboard": "true",
            }
        )
        self.address = (self.folder / "ray_current_cluster").read_text().strip()


def end(process: psutil.Process, *, family: bool = False) -> None:
    """SIGKILL a process, with `family` also all that it started."""
    for each in [*(_children(process) if family else []), process]:
        with contextlib.suppress(psutil.Error):
            each.send_signal(signal.SIGKILL)


def wait_until_gone(processes: list[psutil.Process], seconds: float) -> bool:
    """Wait for processes to end; say whether all have."""
    deadline = time.monotonic() + seconds
    while any(map(alive, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def alive(process: psutil.Process) -> bool:
    """Whether a process is still there; zombies are not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _start(flags: dict[str, object]) -> None:
    common = {"num-cpus": 2, "object-store-memory": OBJECT_STORE}
    line = [f"--{name}={value}" if value != "" else f"--{name}" for name, value in
            (flags | common).items()]  # fmt: skip
    started = subprocess.run(
        [BIN / "ray", "start", *line, "--disable-usage-stats"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    assert started.returncode == 0, started.stdout + started.stderr


def _any_stopped(processes: list[psutil.Process]) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(p.status() == psutil.STATUS_STOPPED for p in processes)
    return True


def _ours(process: psutil.Process, folder: str) -> bool:
    return process.pid != os.getpid() and alive(process) and any(
        folder in part for part in _parts(process)
    )  # fmt: skip


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def _name(process: psutil.Process) -> str:
    parts = _parts(process)
    return Path(parts[0]).name if parts else ""


def _parts(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
