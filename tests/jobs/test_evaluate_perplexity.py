"""The evaluation job on a real cluster, submitted as a user would."""

import pytest

from retomaton_dist.storage.store import Store
from tests.conftest import contents
from tests.evaluation.evaluated import measure_here, score_digest, write_text

CHOSEN = {"methods": "lm,knnlm,retomaton", "lambda_": 0.3, "knn_temperature": 2.0}


def settings(store, text, out):
    return f"""
        store = "{store}"
        [evaluate]
        text = ["{text}"]
        out = "{out}"
        methods = "{CHOSEN["methods"]}"
        lambda = {CHOSEN["lambda_"]}
        knn-temperature = {CHOSEN["knn_temperature"]}
        tau = "1,4,inf"
        [walk]
        k = 32
        max-knns = 32
        [workers]
        workers = 2
    """


# Kernels are compiled anew in the copy that the cluster makes of the working directory.
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_evaluates_a_text_and_its_log_shows_progress_and_the_table(
    submitted, walkable_store, tmp_path
):
    text, out = write_text(tmp_path / "test.txt", 8, 200), tmp_path / "out"
    job = submitted("evaluate_perplexity", settings(walkable_store.path, text, out))
    assert job["status"] == "SUCCEEDED", job["log"]
    assert job["code"] == 0
    assert "score: " in job["log"]
    assert "(100%)" in job["log"]
    assert "matched baseline" in job["log"]
    assert f"report: {out / 'report.html'}" in job["log"]
    here = measure_here(walkable_store.path, tmp_path / "here", {"text": str(text)}, **CHOSEN)
    assert Store.open(out / "text").stage("score").digest == score_digest(here)
    assert contents(out / "text/scores") == contents(here.path / "text/scores")


def test_bad_input_fails_the_job_with_one_clear_line(submitted, walkable_store, tmp_path):
    toml = settings(walkable_store.path, "/no/such/file.txt", tmp_path / "out")
    job = submitted("evaluate_perplexity", toml)
    assert (job["status"], job["code"]) == ("FAILED", 2)
    assert "/no/such/file.txt: no such file" in job["log"]
    assert "Traceback" not in job["log"]
    assert not (tmp_path / "out").exists()
