"""`retomaton submit` against a real cluster, as a user calls it."""

import json
import re

import pytest

from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.conftest import contents, run_command, run_python
from tests.evaluation.evaluated import measure_here, write_text
from tests.jobs.cluster import free_ports
from tests.jobs.test_build_datastore import settings
from tests.jobs.test_evaluate_perplexity import CHOSEN


@pytest.fixture
def submit(cluster):
    """Call `retomaton submit` for the cluster."""
    address, environment = cluster
    return lambda *line: run_command("submit", *line, "--address", address, env=environment)


def id_in(done):
    return re.search(r"submitted (\S+) to", done.stderr)[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ((), "choose one of build, calibrate, eval, score, serve-index, reproduce, doctor with"),
        (("bild",), "submit bild: choose one of"),
        (("stop",), "submit stop: choose one of"),
        (("build", "a.store", "--corpus", "/a", "--model", "m"), "store a.store: a job's working"),
        (("build", "/a.store", "--corpus", "a", "--model", "m"), "--corpus a: a job's working"),
        (("build", "/a.store", "--corpus", "/a", "--model", "tests"), "--model tests: a job's"),
        (("build", "/a.store", "--corpus", "/a", "--model", "m", "--threads", "0"), "--threads 0"),
        (("build", "/a.store", "--corpus", "/a", "--model", "m", "--addr", "x"), "--address out"),
        (("eval", "/a.store", "--text", "/t", "--calibrate-on", "c"), "--calibrate-on c: a job's"),
        (("calibrate", "/a.store", "--on", "c"), "--on c: a job's working"),
        (("score", "/a.store", "--text", "t"), "--text t: a job's working"),
        (("score", "/a.store", "--text", "/t", "--out", "o.parquet"), "--out o.parquet: a job's"),
        (("doctor", "a.store"), "store a.store: a job's working"),
        (("build", "--config", "/no/such.toml"), "cannot read --config /no/such.toml"),
    ],
)
def test_what_a_job_would_refuse_is_refused_before_a_cluster_is_asked(command, line, said):
    result = command("submit", *line)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr


def test_settings_of_later_stages_are_looked_at_too(command, tmp_path):
    toml = tmp_path / "build.toml"
    toml.write_text(settings("/a.store", "/corpus", "m").replace("states = 20", "states = 0"))
    result = command("submit", "build", "--config", toml)
    assert result.returncode == 2
    assert "[cluster] --states 0" in result.stderr


def test_where_no_dashboard_answers_is_said_in_one_line(command):
    address = f"http://127.0.0.1:{free_ports(1)[0]}"
    result = command("submit", "list", "--address", address)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert f"cannot reach the Ray dashboard at {address}" in line


@pytest.mark.slow
def test_a_job_that_is_left_alone_is_listed_and_can_be_followed_to_its_exit_code(
    submit, walkable_store
):
    line = ("eval", walkable_store.path, "--text", "/no/such/file.txt", "--lambda", "0.3")
    job = id_in(submit("--detach", *line))
    followed = submit("follow", job)
    assert followed.returncode == 2
    assert "/no/such/file.txt: no such file" in followed.stdout
    assert followed.stderr == (f"retomaton submit: {job} failed: exit code 2; its log says why\n")
    (listed,) = [row for row in submit("list").stdout.splitlines() if job in row]
    assert re.search(r"FAILED +2 .*retomaton_dist.cli eval", listed)


def test_a_job_that_the_cluster_does_not_have_is_named(submit):
    for action in ("follow", "stop"):
        result = submit(action, "build-0")
        assert (result.returncode, result.stdout) == (2, "")
        assert "knows no job build-0" in result.stderr


def cut(cluster, way):
    address, environment = cluster
    done = run_python("-m", "tests.jobs.cut", address, way, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_log_goes_on_where_it_was_after_the_connection_broke(cluster):
    found = cut(cluster, "cut")
    assert found["status"] == "SUCCEEDED"
    assert found["log"] == found["whole"]
    assert [note.split()[0] for note in found["notes"]] == ["cut", "lost"]


@pytest.mark.slow
def test_following_ends_with_one_line_when_nothing_is_heard_for_long(cluster):
    found = cut(cluster, "close")
    assert "status" not in found
    assert "nothing was heard from" in found["error"]
    assert found["whole"].startswith(found["log"])


@pytest.mark.slow
def test_a_job_that_is_stopped_keeps_what_is_finished(submit, small_corpus, tiny_model, tmp_path):
    toml = tmp_path / "build.toml"
    toml.write_text(settings(tmp_path / "a.store", small_corpus, tiny_model))
    job = id_in(submit("--detach", "build", "--config", toml))
    assert submit("stop", job).stdout == f"{job} is STOPPED; what is finished is kept\n"
    followed = submit("follow", job)
    assert followed.returncode not in (0, 1)
    assert f"{job} was stopped" in followed.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_checks_every_node_with_the_code_that_came_with_it(submit, tmp_path):
    done = submit("doctor", tmp_path / "a.store")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 machine: all is well" in done.stdout
    assert "seen, writable, locks hold" in done.stdout


# Kernels are compiled anew in the copy that the cluster makes of the packages.
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_serves_the_index_that_another_evaluates_with(submit, walkable_store, tmp_path):
    store, text = walkable_store.path, write_text(tmp_path / "test.txt", 4, 100)
    served = submit("serve-index", store)
    assert served.returncode == 0, served.stdout + served.stderr
    assert "shard 0: " in served.stdout
    flags = [f"--{name.rstrip('_').replace('_', '-')}={value}" for name, value in CHOSEN.items()]
    walk = ["--tau", "1,4,inf", "--k", "32", "--max-knns", "32", "--workers", "2"]
    out = tmp_path / "out"
    done = submit("eval", store, "--text", text, "--out", out, *flags, *walk, "--served")
    assert done.returncode == 0, done.stdout + done.stderr
    status = submit("serve-index", store, "--status").stdout
    assert not re.search(r"\b0 queries", status)
    assert submit("serve-index", store, "--stop").returncode == 0
    here = measure_here(store, tmp_path / "here", {"text": str(text)}, **CHOSEN)
    assert contents(out / "text/scores") == contents(here.path / "text/scores")
    assert verify(Store.open(out / "text")).findings == []
