"""Joining a cluster that is already there: with its token, without it, and leaving it clean."""

import shutil
import tempfile
from pathlib import Path

import psutil
import pytest

import retomaton_dist as rd
from tests.conftest import contents, run_command, run_python
from tests.jobs.cluster import head

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOIN = """
import sys
from retomaton_dist.errors import ClusterError
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
try:
    with Session(WorkerSettings(address=sys.argv[1])) as session:
        print("joined", session.crew(gpu=False).workers)
except ClusterError as error:
    print("refused", error)
"""


@pytest.fixture(scope="module")
def cluster():
    """The address to join, the environment to join with, and the head's folder."""
    folder = Path(tempfile.mkdtemp(prefix="rj", dir="/tmp"))
    with head(folder) as (_, environment):
        yield (folder / "ray_current_cluster").read_text().strip(), environment, folder
    shutil.rmtree(folder, ignore_errors=True)


def test_the_right_token_joins(cluster):
    address, environment, _ = cluster
    done = run_python("-c", JOIN, address, env=environment)
    assert done.stdout.strip() == "joined 2", done.stderr


@pytest.mark.parametrize(
    "wrong", [{"RAY_AUTH_TOKEN": "f" * 64}, {"RAY_AUTH_MODE": "disabled"}], ids=["token", "mode"]
)
def test_a_wrong_token_is_refused_in_one_line_that_says_what_to_look_at(cluster, wrong):
    address, environment, _ = cluster
    done = run_python("-c", JOIN, address, env=environment | wrong)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.strip().splitlines()
    assert line.startswith(f"refused cannot reach the Ray cluster at {address}")
    assert "RAY_AUTH_MODE" in line


def actors_of(folder):
    """Actors of the cluster whose raylet works in that folder."""
    raylets = [
        p for p in psutil.process_iter() if f"{folder}/" in _line(p) and "raylet" in _line(p)
    ]
    assert raylets
    return [p for raylet in raylets for p in raylet.children() if "ray::Host" in _line(p)]


def _line(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_a_build_on_a_cluster_gives_the_same_bytes_and_leaves_no_actor(
    cluster, small_store, tmp_path
):
    address, environment, folder = cluster
    store = tmp_path / "joined.store"
    done = run_command(
        "extract", store, *small_store.flags(), "--workers", 1, "--address", address,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert contents(store) == contents(small_store.path)
    assert rd.open(store).entries == rd.open(small_store.path).entries
    psutil.wait_procs(actors_of(folder), timeout=60)
    assert actors_of(folder) == []
