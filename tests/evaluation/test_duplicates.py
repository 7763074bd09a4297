"""Evaluated text that is in the corpus or the calibration text is found, counted and told."""

from pathlib import Path

import pytest

from retomaton_dist.evaluation.duplicates import read_duplicates
from retomaton_dist.storage import canonical
from tests.evaluation.evaluated import measure_here

GIVEN = {"methods": "lm", "lambda_": 0.3, "knn_temperature": 2.0}
NEW = "qwertz uiopa sdfgh jklyx cvbnm jumps over lazy foxes quickly bjork gym sphinx"


@pytest.fixture(scope="module")
def long_lines(small_corpus):
    """Two lines of the corpus whose tokens are far more than an n-gram's."""
    lines = Path(small_corpus).read_text().splitlines()
    return sorted(set(lines), key=len)[-2:]


@pytest.fixture(scope="module")
def found(walkable_store, long_lines, tmp_path_factory):
    """What an evaluation of such lines, one of them altered at its end, leaves."""
    folder = tmp_path_factory.mktemp("shared")
    same, near = long_lines
    texts = {
        "text": "\n".join([NEW, same, near + " x1", NEW[::-1]]),
        "calibrate_on": "\n".join([near, NEW, near]),
    }
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text + "\n")
    paths = {name: str(folder / f"{name}.txt") for name in texts}
    out = folder / "out"
    measure_here(walkable_store.path, out, paths, **GIVEN)
    return out, paths


def pairs(out):
    return {(pair["text"], pair["in"]): pair for pair in read_duplicates(out)["pairs"]}


def test_documents_of_the_corpus_are_found_in_the_evaluated_text(found):
    pair = pairs(found[0])["text", "corpus"]
    assert (pair["documents"], pair["same"], pair["near"]) == (4, [1], [2])
    assert 0 < pair["same_tokens"] < pair["tokens"]


def test_documents_of_the_calibration_text_are_found_though_the_files_differ(found):
    pair = pairs(found[0])["text", "calibration"]
    assert (pair["same"], pair["near"]) == ([0], [2])


def test_calibration_text_that_is_in_the_corpus_is_found(found):
    assert pairs(found[0])["calibration", "corpus"]["same"] == [0, 2]


def test_every_run_warns_and_a_second_one_looks_for_nothing(found, walkable_store, capfd):
    out, paths = found
    before = (out / "duplicates.json").stat().st_mtime_ns
    measure_here(walkable_store.path, out, paths, **GIVEN)
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(told) == 3
    assert "1 of 4 documents" in told[0]
    assert "in the corpus word for word" in told[0]
    assert (out / "duplicates.json").stat().st_mtime_ns == before


def test_a_text_that_shares_nothing_is_not_warned_of(walkable_store, tmp_path, capfd):
    (tmp_path / "new.txt").write_text(NEW + "\n")
    measure_here(
        walkable_store.path, tmp_path / "out", {"text": str(tmp_path / "new.txt")}, **GIVEN
    )
    assert "warning" not in capfd.readouterr().err
    assert canonical.read(tmp_path / "out/duplicates.json", "")["pairs"][0]["same"] == []
