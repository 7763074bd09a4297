"""What an evaluation's folder says of itself, and what `report` says of one that is incomplete."""

import math
import os
import shutil

import pyarrow as pa
import pytest

from retomaton_dist.api.evaluate import run_report
from retomaton_dist.calibration.calibration import Calibration
from retomaton_dist.cli import main
from retomaton_dist.errors import DamagedStore, NotAStore
from retomaton_dist.evaluation.results import Evaluation
from retomaton_dist.methods.method import Calibrated
from retomaton_dist.settings import WalkSettings
from retomaton_dist.storage import canonical

TEXT = {"documents": 12, "positions": 1000, "words": 300, "caps": {}, "temperatures": [8.0]}
SETTINGS = {
    "evaluate": {"lambda_": None, "temperature": None},
    "methods": ["lm", "knnlm"],
    "mode": "sweep",
    "setup": {"automata": ["kmeans"], "taus": {"kmeans": ["1.0", "inf"]}},
    "store": "my.store",
    "text": TEXT,
}
ROW = {
    "method": "retomaton",
    "clustering": "kmeans",
    "tau": 4.0,
    "sigma": None,
    "foss": 0.5,
    "perplexity": 20.0,
    "interval": [19.0, 21.0],
    "baseline": "knnlm+wide",
    "against": {"ratio": 0.9, "interval": [0.8, 0.95]},
    "against_knnlm": {"ratio": 0.85, "interval": None},
    "without_duplicates": {"perplexity": 22.0, "against": {"ratio": 0.95, "interval": None}},
    "worse_than_lm": {"documents": 2, "worst": "a.txt", "ratio": 1.25},
    "seconds": None,
}
ALONE = {"method": "lm", "clustering": None, "tau": None, "against": None, "against_knnlm": None}
ROWS = [ROW | ALONE, ROW, ROW | {"tau": "inf", "sigma": "inf"}]


@pytest.fixture
def folder(tmp_path):
    """An evaluation's folder whose text was never scored."""
    made = tmp_path / "out"
    manifest = {"format": "retomaton-store", "version": 1, "stages": []}
    canonical.write(made / "text/store.json", manifest)
    canonical.write(made / "settings.json", SETTINGS)
    canonical.write(made / "results.json", {"rows": ROWS})
    found = {"lm": Calibrated({}, {}), "knnlm": Calibrated({"lambda": 0.5}, {})}
    Calibration("", found, None, (), ("kmeans",), WalkSettings(), None, None, None).write(made)
    return made


def refused(folder, capsys):
    """The one line that `retomaton report` says."""
    assert main(["report", str(folder)]) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    assert "Traceback" not in said
    return said


def test_a_folder_without_its_calibration_is_refused(folder, capsys):
    (folder / "calibration.json").unlink()
    said = refused(folder, capsys)
    assert "calibration.json is missing; run the same evaluation again" in said


def test_a_calibration_that_lacks_a_method_is_refused(folder, capsys):
    canonical.write(folder / "settings.json", SETTINGS | {"methods": ["lm", "knnlm", "adaptret"]})
    assert "calibration.json has no 'adaptret'" in refused(folder, capsys)


@pytest.mark.parametrize("name", ["evaluate", "methods", "mode", "setup", "store", "text"])
def test_settings_that_lack_something_are_refused(folder, capsys, name):
    kept = {key: value for key, value in SETTINGS.items() if key != name}
    canonical.write(folder / "settings.json", kept)
    assert f"settings.json has no '{name}'" in refused(folder, capsys)


def test_facts_of_the_text_that_are_missing_are_refused(folder):
    canonical.write(folder / "settings.json", SETTINGS | {"text": {"positions": 1000}})
    with pytest.raises(DamagedStore, match=r"settings.json has no 'caps'"):
        run_report(folder)


@pytest.mark.parametrize("name", ["settings.json", "calibration.json"])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
@pytest.mark.timeout(60)
def test_a_folder_or_a_pipe_in_place_of_a_file_is_refused(folder, capsys, name, make):
    (folder / name).unlink()
    make(folder / name)
    assert f"cannot read {folder / name}" in refused(folder, capsys)


def test_results_that_are_missing_are_named(folder):
    (folder / "results.json").unlink()
    with pytest.raises(NotAStore, match=r"cannot read .*results.json"):
        _ = Evaluation.open(folder).rows


def test_a_folder_without_its_text_is_refused(folder, capsys):
    shutil.rmtree(folder / "text")
    assert f"{folder / 'text'} does not hold the evaluated text" in refused(folder, capsys)


def test_a_text_without_its_scores_is_refused(folder, capsys):
    assert "score" in refused(folder, capsys)


def test_thresholds_are_numbers_so_that_rows_make_an_arrow_table(folder):
    rows = Evaluation.open(folder).rows
    assert [row["tau"] for row in rows] == [None, 4.0, math.inf]
    assert pa.Table.from_pylist(rows)["sigma"].to_pylist() == [None, None, math.inf]


def test_the_frame_has_a_column_for_every_number(folder):
    frame = Evaluation.open(folder).frame()
    assert frame.num_rows == len(ROWS)
    assert frame["tau"].type == pa.float64()
    assert frame["against"].to_pylist() == [None, 0.9, 0.9]
    assert frame["against_low"].to_pylist() == [None, 0.8, 0.8]
    assert frame["interval_high"].to_pylist() == [21.0] * 3
    assert frame["against_without_duplicates"].to_pylist() == [0.95] * 3
    assert frame["perplexity_without_duplicates"].to_pylist() == [22.0] * 3
    assert frame["worse_than_lm_worst"].to_pylist() == ["a.txt"] * 3
    assert frame["seconds_total"].to_pylist() == [None] * 3
    assert not any(pa.types.is_nested(field.type) for field in frame.schema)


def test_an_evaluation_shows_itself_in_one_line(folder):
    shown = repr(Evaluation.open(folder))
    facts = "1,000 positions of 12 documents, 2 methods, sweep"
    assert shown == f"Evaluation('{folder}': {facts})"
