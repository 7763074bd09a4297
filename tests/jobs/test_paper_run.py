"""The experiments run for real, on tiny data, in this process."""

import json
from pathlib import Path

import pytest

import retomaton_dist as rd
from tests.cli.checks import check_refused, check_refused_without_a_trace
from tests.conftest import contents
from tests.jobs.paper_data import write_data

SMALL = {
    "clusterings": "100,20,none",
    "timing_foss": "0,0.5",
    "timing_positions": 60,
    "law_bytes": 6000,
    "walk": {"k": 16, "max_knns": 16},
    "cluster": {"iterations": 2},
    "index": {"factory": "Flat", "recall_queries": 8, "recall_k": 4},
    "compile": {"codec": "fp16"},
    "train": {"steps": 2},
    "workers": 0,
    "progress": "none",
}
PLAIN = {"evaluate": {"methods": "lm,knnlm,retomaton", "tau": "1,4,inf"}}


@pytest.fixture
def settings(tmp_path, tiny_model):
    data = write_data(tmp_path / "data")
    named = {"data": str(data), "out": str(tmp_path / "out"), "wiki_model": str(tiny_model)}
    return {**SMALL, **PLAIN, **named}


def results(settings):
    return json.loads((Path(settings["out"]) / "results.json").read_text())


def test_an_experiment_ends_in_a_report_beside_the_paper(settings, tmp_path):
    page = rd.reproduce(**settings, experiments="adaptation")
    assert page == tmp_path / "out/report.html"
    assert "12.34" in page.read_text()
    assert "Law-MT" in (tmp_path / "out/report.md").read_text()
    found = results(settings)
    assert [*found["evaluations"]] == ["adaptation"]
    assert found["findings"][0]["claim"].endswith("below kNN-LM")
    chosen = found["evaluations"]["adaptation"]["settings"]["evaluate"]
    assert chosen["text"][0].endswith("law/test.en")
    assert chosen["calibrate_on"][0].endswith("law/valid.en")
    before = contents(tmp_path / "out/stores")
    rd.reproduce(**settings, experiments="adaptation")
    assert (contents(tmp_path / "out/stores"), results(settings)) == (before, found)


@pytest.mark.slow
def test_all_experiments_are_in_one_report_and_a_model_is_trained_if_none_is_named(settings):
    settings = {**settings, "wiki_model": None}
    rd.reproduce(**settings, experiments="in-domain")
    rd.reproduce(**settings, strong_model=f"{settings['out']}/models/wiki")
    done = {"in-domain", "adaptation", "adaptation-strong", "fine-tuned", "wall-clock"}
    assert {*results(settings)["evaluations"]} == {*done, "ablation-wiki", "ablation-law"}
    assert (Path(settings["out"]) / "models/wiki/training.json").exists()


BAD = [
    (["nothing"], "experiment nothing: choose from in-domain, adaptation"),
    (["in-domain", "--clusterings", "0"], "--clusterings 0: name greedy, none, or"),
    (["in-domain", "--wiki-bytes", "0"], "--wiki-bytes 0: at least 1 is needed"),
    (["adaptation", "--strong-model", "no/such/model/here"], "no/such/model/here"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_bad_settings_are_refused_in_one_line(command, settings, tmp_path, arguments, said):
    where = ["--data", settings["data"], "--out", settings["out"], "--workers", 0]
    named = ["--wiki-model", settings["wiki_model"]]
    result = command("reproduce", *arguments, *where, *named)
    check_refused_without_a_trace(result, tmp_path / "out", said)


def test_missing_text_is_refused_before_anything_is_written(command, settings, tmp_path):
    (tmp_path / "data/law/valid.en").unlink()
    where = ["--data", settings["data"], "--out", settings["out"], "--workers", 0]
    result = command("reproduce", "--wiki-model", settings["wiki_model"], *where)
    check_refused_without_a_trace(result, tmp_path / "out", "law/valid.en: no such file")


def test_what_experiments_set_themselves_is_refused_in_the_tables(command, settings, tmp_path):
    (tmp_path / "a.toml").write_text("[cluster]\nstates = 5\n")
    where = ["--data", settings["data"], "--out", settings["out"]]
    result = command("reproduce", "--config", tmp_path / "a.toml", *where)
    check_refused(result, "[cluster] states: the experiments set it themselves; leave it out")
