"""The build job on a real cluster, submitted as a user would."""

import pytest

import retomaton_dist as rd
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.conftest import ROOT


def settings(store, corpus, model):
    return f"""
        store = "{store}"
        [corpus]
        corpus = ["{corpus}"]
        split = "line"
        [model]
        model = "{model}"
        [extract]
        chunk-entries = 2048
        [cluster]
        states = 20
        [compile]
        codec = "fp16"
        [workers]
        workers = 2
    """


def test_a_job_builds_the_store_and_its_log_shows_progress(
    submitted, small_corpus, tiny_model, small_store, tmp_path
):
    store = tmp_path / "job.store"
    toml = settings(store, small_corpus, tiny_model)
    job = submitted("build_datastore", toml)
    assert job["status"] == "SUCCEEDED", job["log"]
    assert job["code"] == 0
    assert "extract: " in job["log"]
    assert "(100%)" in job["log"]
    opened = Store.open(store)
    assert verify(opened).findings == []
    assert opened.stage("extract").digest == Store.open(small_store.path).stage("extract").digest
    assert rd.open(store).states().count == rd.open(store).automaton("kmeans").states == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "corpus", "message"),
    [
        ("/nowhere/at/all.store", "/no/such/file.txt", "no such file, folder or glob"),
        ("relative.store", None, "give an absolute path on a file system that all nodes"),
    ],
)
def test_bad_input_fails_the_job_with_one_clear_line(
    submitted, small_corpus, tiny_model, store, corpus, message
):
    toml = settings(store, corpus or small_corpus, tiny_model)
    job = submitted("build_datastore", toml)
    assert job["status"] == "FAILED"
    assert job["code"] == 2
    assert message in job["log"]
    assert "Traceback" not in job["log"]


def test_what_a_clone_would_upload_is_small():
    listed = {"jobs", "retomaton_dist", "storage", "tests", "docs"}
    sizes = [
        path.stat().st_size
        for name in listed
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    ignored = (ROOT / ".gitignore").read_text().split()
    assert sum(sizes) < 5_000_000
    assert {".venv/", "*.store/", "/retomaton-demo/", "__pycache__/"} <= set(ignored)
