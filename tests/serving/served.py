"""A real server in a process of its own, and how it is reached."""

import contextlib
import re
import subprocess
import sys
import time
from dataclasses import dataclass

import httpx

from tests.conftest import ROOT

LISTENING = re.compile(r"serving '(.+)' at (http://\S+)/v1")


@dataclass(frozen=True)
class RunningServer:
    """Where it listens, what it calls its model, its process, and where its log is."""

    url: str
    model: str
    process: subprocess.Popen
    log: object

    def get(self, path, **more):
        return httpx.get(self.url + path, timeout=60, **more)

    def post(self, path, body, **more):
        return httpx.post(self.url + path, json=body, timeout=60, **more)

    def complete(self, **asked):
        """An answer of /v1/completions, as it is."""
        found = self.post("/v1/completions", {"model": self.model, **asked})
        assert found.status_code == 200, found.text
        return found.json()

    def metric(self, name):
        """The sum of a metric's samples."""
        lines = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", self.get("/metrics").text, re.MULTILINE)
        return sum(map(float, lines))


@contextlib.contextmanager
def serving(store, folder, *flags):
    """Serve a store until the block ends."""
    log = folder / "serve.log"
    line = [sys.executable, "-m", "retomaton_dist.cli", "serve", str(store), "--port", "0", *flags]
    with log.open("w") as output:
        process = subprocess.Popen(line, stderr=output, stdout=output, cwd=ROOT)
    try:
        yield _ready(process, log)
    finally:
        process.terminate()
        process.wait(60)


def _ready(process, log):
    until = time.monotonic() + 200
    while time.monotonic() < until and process.poll() is None:
        found = LISTENING.search(log.read_text())
        if found is not None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{found[2]}/readyz", timeout=10).status_code == 200:
                    return RunningServer(found[2], found[1], process, log)
        time.sleep(0.1)
    raise AssertionError(f"the server did not come up:\n{log.read_text()}")
