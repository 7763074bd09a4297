"""Nodes are lost under way: it costs their units, not the run, and not a byte."""

import contextlib
import subprocess
import sys

import psutil
import pytest

import retomaton_dist as rd
from tests.conftest import ROOT, contents
from tests.nodes.raylets import raylets, wait_for
from tests.stages.killing import Running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STATES = 300


def start(cluster, command, store, *flags):
    """Begin a command on the cluster, with a worker on each CPU."""
    line = [command, store, *flags, "--address", cluster.address, "--workers", 6]
    process = subprocess.Popen(
        [sys.executable, "-m", "retomaton_dist.cli", *map(str, line)],
        cwd=ROOT,
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Running(process, store)


@pytest.fixture
def third(cluster):
    """A node that is there to be lost."""
    node = cluster.add("third", cpus=2)
    yield node
    node.kill()


def test_a_node_lost_during_extraction_costs_its_units(cluster, third, small_store, tmp_path):
    store = tmp_path / "a.store"
    running = start(cluster, "extract", store, *without_workers(small_store))
    running.wait_for_units("extract", 1)
    wait_for(third.actors, "a worker on the node")
    third.kill()
    code, _, err = running.finish()
    assert code == 0, err
    assert contents(store) == contents(small_store.path)


def without_workers(store):
    flags = store.flags()
    place = flags.index("--workers")
    return [*flags[:place], *flags[place + 2 :]]


def test_a_node_lost_during_clustering_leaves_its_units_to_others(
    cluster, third, small_store, tmp_path
):
    here = rd.cluster(small_store.copy(tmp_path).path, states=STATES, workers=0, progress="none")
    (tmp_path / "there").mkdir()
    store = small_store.copy(tmp_path / "there").path
    running = start(cluster, "cluster", store, "--states", STATES)
    wait_for(third.actors, "a worker on the node")
    third.kill()
    code, _, err = running.finish()
    assert code == 0, err
    assert contents(store) == contents(here.path)


@pytest.mark.parametrize("command", ["cluster", "extract", "compile"])
def test_without_its_own_node_a_command_ends_with_one_clear_line(
    small_store, walkable_store, tmp_path, command
):
    """Its own Ray's only raylet is killed: nothing can be saved but what is finished."""
    flags = [*(small_store.flags() if command == "extract" else ()), "--workers", "1"]
    flags += ["--name", "coded"] if command == "compile" else []
    found = walkable_store if command == "compile" else small_store
    store = tmp_path / "a.store" if command == "extract" else found.copy(tmp_path).path
    running = Running.start(command, store, [*flags, "--progress", "none"])
    (actor,) = wait_for(running.actors, "an actor")
    actor.suspend()  # or it might be done before the raylet is
    (raylet,) = (process for process in running.descendants() if process.name() == "raylet")
    raylet.kill()
    code, _, err = running.finish()
    with contextlib.suppress(psutil.NoSuchProcess):
        actor.kill()
    assert code == 2, err
    assert err.splitlines()[-1].startswith(f"retomaton {command}: error: the Ray node that")
    assert "Traceback" not in err


LEAVES = """
import sys
from retomaton_dist.runtime import session
from retomaton_dist.settings import WorkerSettings
session.LEAVE_SECONDS = 2.0
with session.Session(WorkerSettings(address=sys.argv[1])) as joined:
    joined.join()
    print("joined", flush=True)
    sys.stdin.readline()
print("left", flush=True)
"""


def test_a_head_that_falls_silent_does_not_hold_who_leaves_the_cluster():
    with raylets(cpus=1) as alone:
        process = subprocess.Popen(
            [sys.executable, "-c", LEAVES, alone.address],
            cwd=ROOT,
            env=alone.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "joined\n"
        head = alone.head()
        head.suspend()
        try:
            said, _ = process.communicate("leave\n", timeout=60)
        finally:
            head.resume()
            process.kill()
    assert (said, process.returncode) == ("left\n", 2)
