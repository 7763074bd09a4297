"""Several nodes do what one does, byte for byte; those that cannot are named at the start."""

import json
import subprocess
import sys

import pytest

import retomaton_dist as rd
from retomaton_dist.storage.store import Store
from tests.conftest import ROOT, contents, run_command, run_python, save_tiny_model
from tests.evaluation.evaluated import measure_here, score_digest, write_text
from tests.jobs.cluster import BIN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BUILD = {
    "cluster": {"states": 20},
    "index": {"factory": "Flat"},
    "compile": {"codec": "fp16"},
}
CHOSEN = {"methods": "lm,knnlm,retomaton", "lambda_": 0.3, "knn_temperature": 2.0}
WORKERS = 4


def submit(cluster, module, *flags):
    """`ray job submit` as a user calls it, with the code where all nodes see it."""
    shared = json.dumps({"env_vars": {"PYTHONPATH": str(ROOT)}})
    line = ["job", "submit", "--address", cluster.dashboard, "--runtime-env-json", shared, "--"]
    entry = ["python", "-m", f"jobs.{module}", *map(str, flags)]
    return subprocess.run(
        [BIN / "ray", *line, *entry],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def write_toml(path, small_corpus, tiny_model):
    path.write_text(f"""
        [corpus]
        corpus = ["{small_corpus}"]
        split = "line"
        [model]
        model = "{tiny_model}"
        [extract]
        chunk-entries = 2048
        [cluster]
        states = {BUILD["cluster"]["states"]}
        [index]
        factory = "Flat"
        [compile]
        codec = "fp16"
        [workers]
        workers = {WORKERS}
    """)
    return path


def test_a_build_and_an_evaluation_by_jobs_equal_those_of_one_process(
    cluster, small_corpus, tiny_model, tmp_path
):
    toml = write_toml(tmp_path / "build.toml", small_corpus, tiny_model)
    there, here = tmp_path / "there.store", tmp_path / "here.store"
    job = submit(cluster, "build_datastore", there, "--config", toml)
    assert job.returncode == 0, job.stdout + job.stderr
    corpus = {"corpus": str(small_corpus), "split": "line", "chunk_entries": 2048}
    quiet = {"workers": 0, "progress": "none"}
    rd.build(here, model=str(tiny_model), **corpus, **BUILD, **quiet)
    assert contents(there) == contents(here)
    text, out = write_text(tmp_path / "test.txt", 8, 100), tmp_path / "out"
    flags = ["--text", text, "--out", out, "--methods", CHOSEN["methods"], "--lambda", 0.3]
    flags += ["--knn-temperature", 2.0, "--tau", "1,4,inf", "--k", 32, "--max-knns", 32]
    job = submit(cluster, "evaluate_perplexity", there, *flags, "--workers", WORKERS)
    assert job.returncode == 0, job.stdout + job.stderr
    alone = measure_here(here, tmp_path / "alone", {"text": str(text)}, **CHOSEN)
    assert Store.open(out / "text").stage("score").digest == score_digest(alone)
    assert contents(out / "text/scores") == contents(alone.path / "text/scores")


SPREAD = """
import functools, json, sys
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from tests.nodes.where import Where
with Session(WorkerSettings(address=sys.argv[1], workers=2)) as session:
    with session.pool(functools.partial(Where, sys.argv[2], 2), gpu=False) as pool:
        print(json.dumps([found for _, found in pool.run(range(4))]))
"""


def test_fewer_workers_than_a_node_has_room_for_are_spread_over_nodes(cluster, tmp_path):
    environment = cluster.environment | {"PYTHONPATH": str(ROOT)}
    done = run_python("-c", SPREAD, cluster.address, tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(set(json.loads(done.stdout.splitlines()[-1]))) == 2


@pytest.fixture
def odd_node(cluster):
    """Start a node in other surroundings; it is gone when the test is over."""
    made = []

    def start(name, environment=(), mounts=()):
        script = " && ".join([*(f"mount {mount}" for mount in mounts), 'exec "$@"'])
        wrapped = ["unshare", "-m", "sh", "-c", script, "sh"] if mounts else []
        made.append(cluster.add(name, environment=environment, wrapped=wrapped))

    yield start
    for node in made:
        node.kill()


def can_mount():
    line = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(line, capture_output=True).returncode == 0


def tokenize(cluster, small_corpus, model, store):
    flags = ["--corpus", small_corpus, "--split", "line", "--model", model]
    return run_command(
        "tokenize", store, *flags, "--address", cluster.address, env=cluster.environment
    )


def test_nodes_that_see_other_files_or_have_other_packages_are_named(
    cluster, odd_node, small_corpus, tiny_model, tmp_path
):
    other = tmp_path / "site/numpy-0.0.7.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.7\n")
    odd_node("antiquated", {"PYTHONPATH": str(other.parent)})
    shared = tmp_path / "shared"
    shared.mkdir()
    if can_mount():
        odd_node("blind", mounts=[f"-t tmpfs none {shared}"])
    done = tokenize(cluster, small_corpus, tiny_model, shared / "a.store")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "node antiquated on " in line
    assert "has numpy 0.0.7 instead of " in line
    if can_mount():
        assert "node blind on " in line
        assert f"{shared / 'a.store'} is not there" in line
    assert "node one" not in line
    assert list(shared.iterdir()) == []


@pytest.mark.skipif(not can_mount(), reason="needs namespaces")
def test_a_host_without_a_node_of_the_cluster_is_told_so(cluster):
    """In a namespace of processes of its own there is no raylet to be found."""
    line = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable]
    line += ["-m", "retomaton_dist.cli", "doctor", "--address", cluster.address]
    done = subprocess.run(
        line, env=cluster.environment, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2, done.stderr
    (said,) = done.stderr.splitlines()
    assert "this host has no Ray node of that cluster: `ray start" in said
    assert "RAY_AUTH_MODE" not in said


@pytest.mark.skipif(not can_mount(), reason="needs to mount")
def test_a_node_with_another_model_is_named(cluster, odd_node, small_corpus, tiny_model, tmp_path):
    other = save_tiny_model(tmp_path / "other", n_layer=1)
    odd_node("forger", mounts=[f"--bind {other} {tiny_model}"])
    flags = ["--corpus", small_corpus, "--split", "line", "--model", tiny_model]
    store = tmp_path / "a.store"
    done = run_command(
        "extract", store, *flags, "--address", cluster.address, env=cluster.environment
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "node forger on " in line
    assert "other weights or config" in line
    assert "node two" not in line
    assert not store.exists()
