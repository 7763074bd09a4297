"""The service as such: losing actors, sharing them, and what they tell about themselves."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.errors import ClusterError, DamagedStore, WorkerLost
from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.search_service import (
    NAMESPACE,
    SearchService,
    is_served,
    service_name,
)
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.search.parameters import NONE
from tests.conftest import ROOT, run_command, run_python
from tests.runtime.workers import Owner
from tests.search.conftest import DIMENSION
from tests.search.made import many_ties, serving

pytestmark = pytest.mark.usefixtures("ray_local")

QUERIES = many_ties(16, DIMENSION, seed=8).astype(np.float32)


@pytest.fixture
def files(indexed):
    return IndexFiles.open(rd.open(indexed).store, "cells")


def test_killing_actors_under_concurrent_load_loses_no_call(indexed, files):
    expected = rd.open(indexed).searcher("cells").search(QUERIES, 10)
    answers, failures, stop = [], [], threading.Event()

    def ask(service):
        while not stop.is_set():
            try:
                answers.append(service.search(QUERIES, 10))
            except BaseException as error:
                failures.append(error)
                raise

    with serving(files) as service:
        callers = [threading.Thread(target=ask, args=(service,)) for _ in range(4)]
        for caller in callers:
            caller.start()
        killed = set()
        for shard in (0, 2):
            pid = service.status()[shard]["pid"]
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
            answered = len(answers)
            while len(answers) < answered + 20 and not failures:
                stop.wait(0.05)
        stop.set()
        for caller in callers:
            caller.join()
        assert not killed & {shard["pid"] for shard in service.status()}
    assert not failures
    assert len(answers) >= 40
    for answer in answers:
        assert all(map(np.array_equal, answer, expected))


def test_a_served_index_is_shared_by_name_until_it_is_stopped(command, indexed, files):
    assert command("serve-index", indexed, "--name", "cells", "--address", "auto").returncode == 0
    again = command("serve-index", indexed, "--name", "cells", "--address", "auto")
    assert again.returncode == 2
    assert "served already" in again.stderr
    store = rd.open(indexed)
    with store.searcher("cells", served=True) as shared:
        expected = store.searcher("cells").search(QUERIES, 5)
        assert all(map(np.array_equal, shared.search(QUERIES, 5), expected))
    shown = command("serve-index", indexed, "--name", "cells", "--address", "auto", "--status")
    assert "shard 2: 2,404 entries" in shown.stdout
    # Where entries tie with the k-th, more are asked for.
    counted = re.findall(r"([\d,]+) queries in (\d+) calls", shown.stdout)
    assert len(counted) == 3
    assert all(int(queries) >= len(QUERIES) and int(calls) >= 1 for queries, calls in counted)
    assert "p99" in shown.stdout
    other = store.searcher("cells", served=True)
    result = command("serve-index", indexed, "--name", "cells", "--address", "auto", "--stop")
    assert (result.returncode, result.stderr) == (0, "")
    with pytest.raises(ClusterError, match="stopped"):
        other.search(QUERIES, 5)
    with pytest.raises(ClusterError, match="not served"):
        store.searcher("cells", served=True)


def test_of_two_that_serve_an_index_at_once_one_is_told_so_and_leaves_nothing(ray_local, files):
    """The other has taken a name since this one looked: here that of the last shard."""
    last = f"{service_name(files)} shard {len(files.layout.spans) - 1:05d}"
    rival = ray_local.remote(Owner).options(name=last, namespace=NAMESPACE).remote()
    ray_local.get(rival.put.remote())
    try:
        with pytest.raises(ClusterError, match="is served already"):
            SearchService.serve(files)
    finally:
        ray_local.kill(rival)
    assert not is_served(files)


def test_who_connects_waits_for_an_actor_that_is_started_again(ray_local, files):
    with serving(files) as served:
        expected = served.search(QUERIES, 5)
        os.kill(served.status()[0]["pid"], signal.SIGKILL)
        other = SearchService.connect(files)
        assert other.parameters == served.parameters
        assert all(map(np.array_equal, other.search(QUERIES, 5), expected))


def test_calls_that_arrive_together_become_one_search(ray_local, files):
    with serving(files) as service:
        asked = [actor.search.remote(QUERIES, 3, 1) for actor in service._actors for _ in range(50)]
        answers = ray_local.get(asked)
        for status in service.status():
            assert status["calls"] == 50
            assert status["queries"] == 50 * len(QUERIES)
            assert status["searches"] < 50
            assert 0 < status["milliseconds"]["p50"] <= status["milliseconds"]["p99"]
    for other in answers[1:50]:
        assert all(map(np.array_equal, other, answers[0]))


def test_a_call_that_takes_too_long_is_given_up_with_its_name(files):
    late = pytest.raises(WorkerLost, match=r"shard 0 of .* did not answer within 0 s")
    with serving(files), late:
        SearchService(files, NONE, seconds=0.0).search(QUERIES, 3)


def test_a_damaged_shard_is_named_when_the_service_starts(indexed, files, tmp_path):
    copy = shutil.copytree(indexed, tmp_path / "copy.store")
    shard = copy / "index/cells/shard-00001.faiss"
    shard.write_bytes(b"X" * shard.stat().st_size)
    opened = IndexFiles.open(rd.open(copy).store, "cells")
    with pytest.raises(DamagedStore, match=r"shard-00001.faiss: its contents were altered"):
        SearchService.serve(opened)


def test_status_and_stop_need_to_know_the_cluster(indexed):
    result = run_command("serve-index", indexed, "--name", "cells", "--status")
    assert result.returncode == 2
    assert "--address auto" in result.stderr


@pytest.mark.slow
def test_without_a_cluster_it_serves_in_the_foreground_until_interrupted(indexed):
    line = [sys.executable, "-m", "retomaton_dist.cli", "serve-index", indexed, "--name", "flat"]
    served = subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    shown = [served.stdout.readline() for _ in range(5)]
    assert "index flat" in shown[0]
    assert [f"shard {number}:" in shown[number + 1] for number in range(3)] == [True] * 3
    assert "serving at --address" in shown[4]
    served.send_signal(signal.SIGINT)
    assert served.wait(60) == 0


def test_connecting_without_a_cluster_is_refused_and_starts_none(indexed):
    script = (
        "import sys, retomaton_dist as rd\n"
        "from retomaton_dist.errors import ClusterError\n"
        "try: rd.open(sys.argv[1]).searcher('flat', served=True)\n"
        "except ClusterError as error: print(error)\n"
        "import ray; print(ray.is_initialized())"
    )
    said = run_python("-c", script, indexed).stdout.splitlines()
    assert "joined no Ray cluster" in said[0]
    assert said[1] == "False"


def test_more_cpus_than_there_are_are_refused_at_once(files):
    with pytest.raises(ClusterError, match="do not fit the cluster"):
        SearchService.serve(files, crew=Crew(3, 3.0, 0.0, 1))
