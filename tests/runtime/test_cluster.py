"""A crew is sized for the cluster that is there, and what does not fit is refused up front."""

import json
import os
import socket

import pytest

from retomaton_dist.errors import BadInput, ClusterError
from retomaton_dist.runtime.cluster import Crew, check_fits, choose_crew
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from tests.conftest import run_python

pytestmark = pytest.mark.usefixtures("ray_local")


def chosen(**settings):
    return choose_crew(WorkerSettings(**settings), gpu=False)


def test_auto_is_one_worker_per_cpu():
    assert chosen() == Crew(workers=4, cpus=1.0, gpus=0.0, threads=1)


def test_fewer_workers_get_one_cpu_each():
    assert chosen(workers=3, threads=2) == Crew(3, 1.0, 0.0, 2)


def test_more_workers_than_cpus_share_them():
    crew = chosen(workers=6)
    assert (crew.workers, crew.cpus) == (6, 0.6666)


@pytest.mark.parametrize(("workers", "cpus"), [(8, 0.5), (40, 0.1), (12, 1 / 3), (2, 2), (1, 4)])
def test_what_just_fits_is_taken(workers, cpus):
    assert chosen(workers=workers, cpus_per_worker=cpus).cpus == cpus


@pytest.mark.parametrize(("workers", "cpus"), [(5, 1), (9, 0.5), (2, 3), (1, 5)])
def test_what_could_never_be_scheduled_is_refused_with_what_there_is(workers, cpus):
    with pytest.raises(ClusterError) as caught:
        chosen(workers=workers, cpus_per_worker=cpus)
    message = str(caught.value)
    assert f"{workers} workers of {cpus:g} CPUs and 0 GPUs do not fit" in message
    assert "4 CPUs and 0 GPUs on 1 nodes" in message
    assert "--workers" in message
    assert "\n" not in message


def test_places_are_counted_node_by_node_not_in_the_sum():
    """Two workers of 3 CPUs would fit into 6 CPUs, but not into this machine's 4."""
    check_fits(Crew(1, 3, 0, 1))
    with pytest.raises(ClusterError, match="room for 1;"):
        check_fits(Crew(2, 3, 0, 1))


def test_a_gpu_that_is_not_there_is_an_error_never_a_cpu():
    with pytest.raises(ClusterError, match=r"no GPU.*--device cpu"):
        choose_crew(WorkerSettings(), gpu=True)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"workers": -1}, "--workers -1"),
        ({"workers": 10**9}, "--workers 1000000000"),
        ({"threads": 10**9}, "--threads 1000000000"),
        ({"cpus_per_worker": 0.0}, "--cpus-per-worker 0"),
        ({"cpus_per_worker": float("nan")}, "--cpus-per-worker nan"),
        ({"threads": 0}, "--threads 0"),
        ({"unit_timeout": 0.0}, "--unit-timeout 0"),
        ({"unit_timeout": float("nan")}, "--unit-timeout nan"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_before_ray_is_asked(settings, flag):
    with pytest.raises(BadInput, match=flag):
        WorkerSettings(**settings)


def test_a_session_leaves_the_callers_connection_alone(ray_local):
    before = ray_local.get_runtime_context().get_node_id()
    with Session(WorkerSettings()) as session:
        session.crew(gpu=False)
    assert ray_local.is_initialized()
    assert ray_local.get_runtime_context().get_node_id() == before


def test_a_session_asks_the_cluster_it_is_joined_to_for_gpus():
    assert Session(WorkerSettings()).has_gpu() is False


def in_a_process_of_its_own(code, **environment):
    """Run Python that prints one JSON value last, without this process's connection to Ray."""
    keep = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = run_python("-c", code, env={**keep, **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


OWN_SESSION = """
import json, ray, psutil
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
children = lambda: len(psutil.Process().children(recursive=True))
with Session(WorkerSettings(workers=3)) as session:
    gpu = session.has_gpu()
    before = ray.is_initialized(), children()
    crew = session.crew(gpu=False)
    during = ray.is_initialized()
print(json.dumps([gpu, before, crew.workers, during, ray.is_initialized(), children()]))
"""


@pytest.mark.slow
def test_a_session_starts_ray_when_first_needed_and_ends_what_it_started():
    gpu, before, workers, during, after, children = in_a_process_of_its_own(OWN_SESSION)
    assert (gpu, workers) == (False, 3)
    assert before == [False, 0]
    assert (during, after, children) == (True, False, 0)


LOGICAL_GPUS = """
import functools, json, os, ray
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from tests.runtime.workers import Gpus
ray.init(address="local", num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
make = functools.partial(Gpus, os.environ["MARKS"], 2)
with Session(WorkerSettings()) as session, session.pool(make, gpu=True) as pool:
    print(json.dumps([vars(session.crew(gpu=True)), [found for _, found in pool.run(range(6))]]))
"""


@pytest.mark.slow
def test_one_actor_per_gpu_each_with_its_own(tmp_path):
    crew, found = in_a_process_of_its_own(LOGICAL_GPUS, MARKS=str(tmp_path))
    assert crew == {"workers": 2, "cpus": 1.0, "gpus": 1.0, "threads": 1}
    assert len(found) == 6
    actors = {pid: (tuple(gpus), visible) for pid, gpus, visible in found}
    assert sorted(actors.values()) == [((0,), "0"), ((1,), "1")]
    assert len({(pid, *gpus) for pid, gpus, _ in found}) == 2, "an actor keeps its GPU"


NO_CPU = """
import json, ray
from retomaton_dist.errors import ClusterError
from retomaton_dist.runtime.cluster import choose_crew
from retomaton_dist.settings import WorkerSettings
ray.init(address="local", num_cpus=0, include_dashboard=False, log_to_driver=False)
try:
    choose_crew(WorkerSettings(), gpu=False)
except ClusterError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.slow
def test_a_cluster_without_a_cpu_is_refused():
    assert "no CPU" in in_a_process_of_its_own(NO_CPU)


UNREACHABLE = """
import json, os
from retomaton_dist.errors import ClusterError
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
try:
    with Session(WorkerSettings(address=os.environ["WHERE"])) as session:
        session.crew(gpu=False)
except ClusterError as error:
    print(json.dumps(str(error)))
"""


def test_an_address_that_nobody_listens_at_is_an_error_after_a_while():
    message = in_a_process_of_its_own(UNREACHABLE, WHERE="127.0.0.1:9")
    assert "127.0.0.1:9" in message
    assert "\n" not in message


@pytest.mark.slow
def test_an_address_where_something_else_listens_is_an_error_after_a_while():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        message = in_a_process_of_its_own(UNREACHABLE, WHERE=where)
    assert where in message
    assert "\n" not in message
