"""A real Ray cluster of one node, on ports, folders and a token of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

BIN = Path(sys.executable).parent


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def head(folder):
    """Start a head; yield its dashboard's address and the environment to talk to it."""
    port, dashboard, agent, client = free_ports(4)
    # Explicit on both sides: a token left by an earlier local Ray must not matter.
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    environment.pop("RAY_ADDRESS", None)
    flags = {
        "port": port,
        "dashboard-port": dashboard,
        "dashboard-agent-listen-port": agent,
        "ray-client-server-port": client,
        "num-cpus": 2,
        "temp-dir": folder,
        "include-dashboard": "true",
    }
    line = [f"--{name}={value}" for name, value in flags.items()]
    started = subprocess.run(
        [BIN / "ray", "start", "--head", *line, "--disable-usage-stats"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert started.returncode == 0, started.stdout + started.stderr
    try:
        yield f"http://127.0.0.1:{dashboard}", environment
    finally:
        stop(folder)


def stop(folder):
    """Stop this head's processes and no others': those that name its folder."""
    for _ in range(50):
        found = [process for process in psutil.process_iter() if _names(process, str(folder))]
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        time.sleep(0.1)


def _names(process, text):
    try:
        return process.pid != os.getpid() and any(text in part for part in process.cmdline())
    except psutil.Error:
        return False
