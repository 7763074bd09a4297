"""One real cluster for all jobs, and how a user submits to it."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_python
from tests.jobs.cluster import head


@pytest.fixture(scope="package")
def cluster():
    """A head whose folder has a short name: sockets in it may not have long ones."""
    folder = Path(tempfile.mkdtemp(prefix="rj", dir="/tmp"))
    with head(folder) as (address, environment):
        yield address, environment
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def working_directory(tmp_path_factory):
    """What `--working-dir .` uploads of a clone: the packages."""
    folder = tmp_path_factory.mktemp("clone")
    for package in ("jobs", "retomaton_dist"):
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder


@pytest.fixture
def submitted(cluster, working_directory, tmp_path):
    """Submit a job with a TOML file and wait; return its status, log and exit code."""

    def run(job, toml):
        address, environment = cluster
        # Outside of the working directory: as long as that is the same, Ray keeps one copy of it,
        # in which kernels are compiled once.
        (tmp_path / "job.toml").write_text(toml)
        entrypoint = f"python -m jobs.{job} --config {tmp_path / 'job.toml'}"
        line = ["tests.jobs.submit", address, working_directory, entrypoint]
        done = run_python("-m", *line, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
