"""Submit a job and follow it to its end; prints its outcome as JSON.

A process of its own, since Ray reads a process's token once and the tests' own Ray has another.
"""

import json
import sys
import time

from ray.job_submission import JobStatus, JobSubmissionClient

WAIT_SECONDS = 240
ENDED = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED}


def follow(address, working_directory, entrypoint):
    client = JobSubmissionClient(address)
    job = client.submit_job(entrypoint=entrypoint, runtime_env={"working_dir": working_directory})
    deadline = time.monotonic() + WAIT_SECONDS
    while client.get_job_status(job) not in ENDED and time.monotonic() < deadline:
        time.sleep(0.5)
    return {
        "status": client.get_job_status(job).value,
        "log": client.get_job_logs(job),
        "code": client.get_job_info(job).driver_exit_code,
    }


if __name__ == "__main__":
    print(json.dumps(follow(*sys.argv[1:])))
