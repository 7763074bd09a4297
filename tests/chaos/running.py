"""A command under way: a process that joins the cluster, or a job that the cluster runs."""

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from ray.job_submission import JobStatus, JobSubmissionClient

from tests.chaos.nodes import environment
from tests.conftest import ROOT

ENDED = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED}
STATUS_SECONDS = 0.5
FINE = ("{", "note:", "warning:")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, None if it had to be ended, and what it said."""

    code: int | None
    said: str

    @property
    def lines(self) -> list[str]:
        """What it said apart from progress, notes and warnings."""
        return [line for line in self.said.splitlines() if line and not line.startswith(FINE)]

    @property
    def one_line(self) -> bool:
        """Whether it ended with one line for people, and nothing else."""
        return len(self.lines) == 1

    def iterations(self) -> list[int]:
        """The iterations of k-means that it reported, in order."""
        lines = [json.loads(line) for line in self.said.splitlines() if line.startswith("{")]
        return [int(line["done"]) for line in lines if line["stage"] == "kmeans"]


class Running(ABC):
    """A command under way."""

    @abstractmethod
    def said(self) -> str:
        """What it has said so far, on stderr."""

    @abstractmethod
    def over(self) -> bool:
        """Whether it has ended."""

    @abstractmethod
    def send(self, number: signal.Signals) -> None:
        """Send its driver a signal."""

    @abstractmethod
    def ended(self, seconds: float) -> Ended:
        """Wait for its end; what takes longer is ended."""

    @property
    def steps(self) -> int:
        """Lines of progress so far."""
        return sum(line.startswith("{") for line in self.said().splitlines())


class Process(Running):
    """`retomaton COMMAND` in a process of its own."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self._log = folder / f"said-{time.monotonic_ns()}.txt"
        with self._log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "retomaton_dist.cli", *arguments],
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The driver."""
        return self._process.pid

    def said(self) -> str:
        """The file that stderr goes to."""
        return self._log.read_text(errors="replace")

    def over(self) -> bool:
        """Whether it has an exit code."""
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """To the driver alone."""
        os.kill(self.pid, number)

    def ended(self, seconds: float) -> Ended:
        """Wait for the exit code."""
        try:
            code: int | None = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            code = None
        return Ended(code, self.said())


class Job(Running):
    """A job that the cluster's head runs."""

    def __init__(self, dashboard: str, toml: Path, logs: Path) -> None:
        self._client, self._logs = JobSubmissionClient(dashboard), logs
        self._asked, self._over = 0.0, False
        self._id = self._client.submit_job(
            entrypoint=f"{sys.executable} -m jobs.build_datastore --config {toml}",
            runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
        )

    def said(self) -> str:
        """Its log, as the head keeps it."""
        path = self._logs / f"job-driver-{self._id}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def over(self) -> bool:
        """Whether its status is a last one; asked now and then."""
        if not self._over and time.monotonic() - self._asked > STATUS_SECONDS:
            self._over = self._client.get_job_status(self._id) in ENDED
            self._asked = time.monotonic()
        return self._over

    def send(self, number: signal.Signals) -> None:
        """Stop the job, as `ray job stop` does."""
        self._client.stop_job(self._id)

    def ended(self, seconds: float) -> Ended:
        """Wait for its last status."""
        deadline = time.monotonic() + seconds
        while not self.over():
            if time.monotonic() > deadline:
                self._client.stop_job(self._id)
                return Ended(None, self.said())
            time.sleep(0.2)
        code = self._client.get_job_info(self._id).driver_exit_code
        stopped = self._client.get_job_status(self._id) == JobStatus.STOPPED
        return Ended(-signal.SIGTERM if stopped else code, self._only_progress())

    def _only_progress(self) -> str:
        # A job's log holds its results as well, and Ray's own words.
        lines = self.said().splitlines()
        return "\n".join(line for line in lines if line.startswith("{") or ": error: " in line)
