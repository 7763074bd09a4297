"""The stage `score`: files of per-token results, interrupted and gone on with, found damaged."""

import shutil

import numpy as np
import pytest

from retomaton_dist.engine.scores import Scores
from retomaton_dist.errors import BadInput
from retomaton_dist.storage import lock, records, scores
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import verify
from tests.conftest import contents
from tests.evaluation.evaluated import SETTINGS, measure_here, score_digest, write_text
from tests.stages.killing import Running, traces

CHOSEN = {
    "methods": "lm,retomaton",
    "automata": "kmeans",
    "tau": "1,4,inf",
    "mode": "live",
    "lambda_": 0.3,
    "knn_temperature": 2.0,
}
PASSES = 1 + 3


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return {"text": str(write_text(tmp_path_factory.mktemp("text") / "test.txt", 8, 240))}


@pytest.fixture(scope="module")
def finished(walkable_store, text, tmp_path_factory):
    """Undisturbed. Alter only copies."""
    out = tmp_path_factory.mktemp("finished") / "out"
    return measure_here(walkable_store.path, out, text, **CHOSEN)


def test_files_hold_what_everything_can_be_made_of_afterwards(finished):
    path = finished.path / "text/scores/kmeans@1/"
    (first, *_) = sorted(path.glob("*.parquet"))
    assert scores.read_facts(first) == {"temperatures": [1.0, 2.0, 4.0], "walks": ["kmeans@1"]}
    walk = [
        "sums", "favoured", "searched", "matched", "states", "candidates", "pointed", "nearest",
    ]  # fmt: skip
    read = ["document", "position", "token", "log_lm", "entropy", "confidence", "favourite"]
    assert scores.column_names(first) == [*read, *(f"kmeans@1.{name}" for name in walk)]
    opened = Scores.open(finished.text, "kmeans@1")
    walked = opened.walk("kmeans@1")
    assert walked.sums.shape == (len(opened), 3, 2, 2)
    assert walked.favoured.shape == (len(opened), 3, 2)
    assert walked.searched.dtype == np.bool_
    assert np.array_equal(walked.searched, opened.searched("kmeans@1"))
    assert walked.searched[opened.position == 0].all()


def test_a_pass_or_walk_that_was_not_taken_is_refused_by_name(finished):
    with pytest.raises(BadInput, match="no pass 'sweep'"):
        Scores.open(finished.text, "sweep")
    with pytest.raises(BadInput, match=r"no walk 'none@1'.*there are kmeans@1"):
        Scores.open(finished.text, "kmeans@1").walk("none@1")


def test_a_unit_is_a_pass_over_some_documents_and_its_seconds_are_told_by_part(finished):
    stage = finished.text.stage("score")
    assert stage.units % PASSES == 0
    assert stage.units > PASSES
    assert set(stage.facts["seconds"]) == {path.name for path in folders(finished)}
    for seconds in stage.facts["seconds"].values():
        assert set(seconds) == {"lm", "search", "walk", "rest", "total"}
        assert 0 < seconds["lm"] <= seconds["total"]
    assert stage.facts["positions"] == finished.rows[0]["positions"]
    assert verify(finished.text).findings == []


def folders(evaluation):
    return list((evaluation.path / "text/scores").iterdir())


def test_interrupted_and_run_again_it_does_only_what_is_missing(
    finished, walkable_store, text, tmp_path
):
    shutil.copytree(finished.path / "text", tmp_path / "out/text")
    undo(tmp_path / "out/text", kept=4)
    before = traces(tmp_path / "out/text", "score")
    assert len(records.finished(tmp_path / "out/text", "score")) == 4
    again = measure_here(walkable_store.path, tmp_path / "out", text, **CHOSEN)
    assert untouched(before)
    assert score_digest(again) == score_digest(finished)
    assert contents(again.path / "text/scores") == contents(finished.path / "text/scores")


def undo(text, kept):
    """Leave the stage as an interrupted run does, with so many units done."""
    with writing(text) as writer:
        for unit in range(kept, writer.manifest.stages["score"].units):
            for path in records.read(
                text, "score", unit, writer.manifest.stages["score"].config_hash
            ).files:
                (text / path).unlink()
            writer.forget("score", unit)


def untouched(before):
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in before} == before


def test_flipped_bits_are_found_by_verify(finished, tmp_path, command):
    copy = shutil.copytree(finished.path, tmp_path / "copy")
    unit = copy / "text/scores/kmeans@1/unit-00003.parquet"
    data = bytearray(unit.read_bytes())
    data[len(data) // 2] ^= 1
    unit.write_bytes(data)
    found = command("verify", copy / "text", "--progress", "none")
    assert found.returncode == 1
    assert "scores/kmeans@1/unit-00003.parquet" in found.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_driver_is_killed_while_it_scores_and_goes_on_where_it_was(
    finished, walkable_store, text, tmp_path
):
    out = tmp_path / "out"
    given = {**SETTINGS, **CHOSEN, **text, "out": out}
    flags = [
        part
        for name, value in given.items()
        for part in (f"--{name.strip('_').replace('_', '-')}", str(value))
    ]
    running = Running.start("eval", walkable_store.path, flags)
    running.store = out / "text"
    running.wait_for_units("score", 3)
    running.kill()
    assert lock.owner(out / "text") is None
    before = traces(out / "text", "score")
    assert 3 <= len(records.finished(out / "text", "score")) < finished.text.stage("score").units
    code, shown, err = Running.start("eval", walkable_store.path, flags).finish()
    assert code == 0, err
    assert f"report: {out / 'report.html'}" in shown
    assert untouched(before)
    assert Store.open(out / "text").stage("score").digest == score_digest(finished)
    assert contents(out / "text/scores") == contents(finished.path / "text/scores")
