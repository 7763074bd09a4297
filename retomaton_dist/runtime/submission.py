"""Jobs on a cluster: submitted, followed through lost connections, listed and stopped.

Whoever submits may be a laptop that sleeps or a shell that goes away: the job runs on the cluster
either way. Ray's client waits for ever where a host falls silent, so every request has a limit
here, and so has the time for which nothing is heard of a job that is followed.
"""

import asyncio
import contextlib
import logging
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import requests
from ray.exceptions import RayError
from ray.job_submission import JobSubmissionClient

from retomaton_dist.errors import BadInput, ClusterError
from retomaton_dist.runtime.bounded_waits import Answer, call_within, knock
from retomaton_dist.runtime.cluster import CONNECT_SECONDS, first_line

DASHBOARD = "http://127.0.0.1:8265"
ANSWER_SECONDS = 30.0
UPLOAD_SECONDS = 300.0
QUIET_SECONDS = 20.0
PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
STOP_SECONDS = 60.0
# What a job has between being asked to stop and being killed; by itself, Ray gives three seconds.
ENDING_SECONDS = 30
ENVIRONMENT = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
# Everything that a dashboard which is away, or coming back, makes the client raise.
AWAY = (requests.RequestException, aiohttp.ClientError, OSError, RuntimeError)

# They tell what they do step by step, among what a job prints.
TALKATIVE = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)


@dataclass(frozen=True)
class SubmittedJob:
    """What the cluster says of a job; times are seconds since 1970."""

    id: str
    status: str
    entrypoint: str
    begun: float | None
    ended: float | None
    code: int | None
    message: str

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in ENDED


class JobBoard:
    """The jobs of one cluster, by way of its dashboard."""

    def __init__(self, address: str | None, patience: float = PATIENCE_SECONDS) -> None:
        """Reach the dashboard, or raise ClusterError.

        `address` is the dashboard's (http://HOST:8265), or the cluster's (HOST:PORT, auto); if it
        is not given, that of Ray's own environment variables, else the dashboard of this machine.
        """
        named = next(filter(None, map(os.environ.get, ENVIRONMENT)), None)
        self.address, self._patience = address or named or DASHBOARD, patience
        for name in TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)
        try:
            knock(self.address, CONNECT_SECONDS)
            with _without(ENVIRONMENT):
                self._client = call_within(ANSWER_SECONDS, JobSubmissionClient, self.address)
        except (*AWAY, RayError, ValueError, AssertionError) as error:
            raise ClusterError(
                f"cannot reach the Ray dashboard at {self.address}: {first_line(error)}; name it "
                f"with --address http://HOST:8265, and see that RAY_AUTH_MODE and the token are "
                f"the cluster's"
            ) from error

    def submit(
        self,
        job: str,
        command: Sequence[str],
        packages: Sequence[Path],
        files: Mapping[str, bytes],
    ) -> None:
        """Have the cluster run a command, as the job of that name.

        `packages` are folders of Python packages that it imports, `files` lie in its working
        directory. Packages that the cluster has already are not uploaded again.
        """
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                (Path(folder) / name).write_bytes(data)
            # Ray cannot unpack what is empty.
            environment = {
                "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(ENDING_SECONDS)},
                **({"working_dir": folder} if files else {}),
                **({"py_modules": [str(path) for path in packages]} if packages else {}),
            }
            self._ask(
                UPLOAD_SECONDS,
                lambda: self._client.submit_job(
                    entrypoint=shlex.join(command), runtime_env=environment, submission_id=job
                ),
            )

    def job(self, job: str) -> SubmittedJob:
        """What the cluster says of a job; BadInput if it has none of that name."""
        return _job_from(self._ask(ANSWER_SECONDS, lambda: self._client.get_job_info(job), job))

    def jobs(self) -> list[SubmittedJob]:
        """All that were submitted and that the cluster remembers, the latest last."""
        listed = self._ask(ANSWER_SECONDS, self._client.list_jobs)
        jobs = [_job_from(details) for details in listed if details.submission_id]
        return sorted(jobs, key=lambda job: job.begun or 0.0)

    def stop(self, job: str) -> SubmittedJob:
        """Ask a job to end, wait until it has, and return what became of it."""
        self._ask(ANSWER_SECONDS, lambda: self._client.stop_job(job), job)
        deadline = time.monotonic() + STOP_SECONDS
        while not (state := self.job(job)).is_over:
            if time.monotonic() > deadline:
                raise ClusterError(f"{job} has not ended within {STOP_SECONDS:.0f} s; try again")
            time.sleep(PAUSE_SECONDS)
        return state

    def follow(
        self, job: str, write: Callable[[str], None], note: Callable[[str], None]
    ) -> SubmittedJob:
        """Write a job's log as it grows until the job is over.

        A connection that breaks is made again, and the log goes on where it was; `note` is told
        so. After a while without any answer: ClusterError, and the job goes on by itself.
        """
        log, lost, noted = _Log(self._client, job, write), None, False
        while True:
            try:
                state = self.job(job)
                lost = None
                if state.is_over:
                    break
                log.show()
                noted = False
            except (*AWAY, ClusterError) as error:
                lost = lost or time.monotonic()
                if time.monotonic() - lost > self._patience:
                    raise ClusterError(
                        f"nothing was heard from {self.address} for {self._patience:.0f} s; the "
                        f"job goes on if the cluster does: `retomaton submit follow {job}` shows"
                    ) from error
                if not noted:
                    note(f"lost {self.address} ({first_line(error)}); the job goes on there")
                noted = True
                time.sleep(PAUSE_SECONDS)
        try:
            log.show()
        except AWAY as error:
            note(f"the end of the log cannot be had ({first_line(error)})")
        return state

    def _ask(self, seconds: float, call: Callable[[], Answer], job: str = "") -> Answer:
        try:
            return call_within(seconds, call)
        except RuntimeError as error:
            if job and "status code 404" in str(error):
                raise BadInput(
                    f"the cluster at {self.address} knows no job {job}; `retomaton submit list` "
                    f"shows those that it has"
                ) from error
            raise ClusterError(f"{self.address} refused: {first_line(error)}") from error
        except (*AWAY, RayError) as error:
            raise ClusterError(f"{self.address} is away: {first_line(error)}") from error


class _Log:
    """A job's log, shown as far as it is known."""

    def __init__(self, client: JobSubmissionClient, job: str, write: Callable[[str], None]) -> None:
        self._client, self._job, self._write = client, job, write
        self._shown = 0

    def show(self) -> None:
        """Write what is new until the log ends or is quiet for a while."""
        asyncio.run(self._show())

    async def _show(self) -> None:
        # The log comes from its beginning, whatever was shown of it before.
        known, stream = self._shown, self._client.tail_job_logs(self._job)
        try:
            while True:
                text = await asyncio.wait_for(anext(stream), QUIET_SECONDS)
                if new := text[known:]:
                    self._write(new)
                    self._shown += len(new)
                known = max(0, known - len(text))
        except (StopAsyncIteration, TimeoutError):
            return
        finally:
            await stream.aclose()


def _job_from(details: Any) -> SubmittedJob:
    return SubmittedJob(
        id=details.submission_id,
        status=details.status.value,
        entrypoint=details.entrypoint,
        begun=details.start_time / 1000 if details.start_time else None,
        ended=details.end_time / 1000 if details.end_time else None,
        code=details.driver_exit_code,
        message=details.message or "",
    )


@contextlib.contextmanager
def _without(names: Sequence[str]) -> Iterator[None]:
    """Have no environment variables of these names in the block: Ray prefers them to arguments."""
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)
