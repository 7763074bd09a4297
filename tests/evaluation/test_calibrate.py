"""A calibration is a part of the store: a stage with digests that evaluations use by name."""

import math
import shutil

import pytest

import retomaton_dist as rd
from retomaton_dist.calibration.calibration import Calibration
from retomaton_dist.errors import BadInput, StageMissing
from retomaton_dist.storage.errors import ConfigMismatch, DamagedStore
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import repair, verify
from tests.cli.checks import Unchanged, check_refused
from tests.evaluation.evaluated import by_point, write_texts
from tests.generation.calibrated import QUIET, WALK

METHODS = "knnlm,retomaton,retomaton+pw,retomaton+lambda,retomaton+suffix"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


def calibrate(store, texts, **changed):
    chosen = {"on": texts["calibrate_on"], "methods": METHODS, **WALK, **QUIET}
    return rd.calibrate(store, **{**chosen, **changed})


def evaluate(store, texts, out, **changed):
    chosen = {"text": texts["text"], "tau": "1,4,inf", "sigma": "0,2", **WALK, **QUIET}
    return rd.evaluate(store, out=str(out), **{**chosen, **changed})


@pytest.fixture(scope="module")
def store(walkable_store, texts, tmp_path_factory):
    """A calibrated store. Alter only copies."""
    path = walkable_store.copy(tmp_path_factory.mktemp("store")).path
    calibrate(path, texts, target_foss="0.4,0.1")
    return path


def test_it_is_a_stage_of_a_sound_store(store, command):
    opened = Store.open(store)
    stage = opened.stage("calibrate/default")
    assert stage.facts["methods"] == METHODS.split(",")
    assert set(stage.files) == {
        f"calibrations/default/calibration.{kind}" for kind in ("json", "safetensors")
    }
    checked = verify(opened)
    assert (checked.findings, checked.leftovers) == ([], [])
    shown = command("inspect", store).stdout
    assert "calibrate/default" in shown
    assert "5 methods" in shown
    assert "calibrations/default" in shown


def test_it_has_constants_networks_and_thresholds_by_foss(store):
    kept = Calibration.open(Store.open(store), "default")
    assert kept.targets == (0.4, 0.1)
    assert 0 < kept.found["retomaton"].facts["kmeans"]["lambda"] < 1
    assert kept.found["retomaton+pw"].facts["none"]["pointer_weight"] >= 1
    assert kept.found["retomaton+lambda"].arrays
    curve = kept.thresholds.curves["kmeans"]
    assert (curve.taus[0], curve.taus[-1], curve.foss[-1]) == (1.0, math.inf, 0.0)
    assert len(kept.thresholds.tried["none"]) == 15
    assert kept.walk.k == WALK["k"]


def test_done_again_it_is_left_alone_and_damaged_it_comes_back_the_same(store, texts, tmp_path):
    with Unchanged(store):
        calibrate(store, texts, target_foss="0.4,0.1")
    copy = shutil.copytree(store, tmp_path / "copy.store")
    path = copy / "calibrations/default/calibration.json"
    path.write_bytes(path.read_bytes().replace(b"0.", b"1.", 1))
    with pytest.raises(DamagedStore, match=r"calibration\.json its contents were altered"):
        rd.load(copy)
    repair(copy, verify(Store.open(copy)))
    calibrate(copy, texts, target_foss="0.4,0.1")
    digests = [Store.open(one).stage("calibrate/default").digest for one in (store, copy)]
    assert digests[0] == digests[1]


def test_other_settings_need_another_name_and_the_newest_is_taken(store, texts, tmp_path):
    with Unchanged(store), pytest.raises(ConfigMismatch, match=r"methods was .*, now \['lm'\]"):
        calibrate(store, texts, methods="lm", target_foss="0.4,0.1")
    copy = shutil.copytree(store, tmp_path / "copy.store")
    calibrate(copy, texts, methods="lm,retomaton", name="plain")
    assert Store.open(copy).finished("calibrate") == ["default", "plain"]
    assert rd.load(copy, method="retomaton").calibration == "plain"
    with pytest.raises(BadInput, match=r"'plain' has nothing for retomaton\+lambda, only for lm"):
        rd.load(copy, method="retomaton+lambda")
    assert rd.load(copy, calibration="default").calibration == "default"


@pytest.mark.parametrize("name", ["..", ".", "", "../default", "../../other", "/tmp", "default/"])
def test_only_a_name_can_be_pruned_never_a_path(store, command, name):
    with Unchanged(store):
        check_refused(command("prune", store, "--calibration", name), "has no calibration")


def test_pruned_it_is_gone_and_its_name_is_free(store, texts, command, tmp_path):
    copy = shutil.copytree(store, tmp_path / "copy.store")
    check_refused(command("prune", copy, "--calibration", "other"), "'other'; there is default")
    assert "'default' deleted" in command("prune", copy, "--calibration", "default").stdout
    assert not (copy / "calibrations/default").exists()
    checked = verify(Store.open(copy))
    assert (checked.findings, checked.leftovers) == ([], [])
    calibrate(copy, texts, methods="lm,retomaton")
    assert Store.open(copy).finished("calibrate") == ["default"]


def test_an_evaluation_with_it_is_one_that_calibrates_on_its_text(store, texts, tmp_path):
    named = {"methods": "knnlm,retomaton,retomaton+pw"}
    kept = evaluate(store, texts, tmp_path / "kept", calibration="default", **named)
    own = evaluate(store, texts, tmp_path / "own", calibrate_on=texts["calibrate_on"], **named)
    assert not (kept.path / "calibration").exists()
    found, expected = by_point(kept), by_point(own)
    assert list(found) == list(expected)
    for point, row in found.items():
        for name in ("perplexity", "foss", "lambda", "temperature", "pointer_weight"):
            assert row[name] == pytest.approx(expected[point][name], rel=1e-9)


def test_an_evaluation_takes_its_methods_and_thresholds_from_it(store, texts, tmp_path):
    chosen = {"tau": None, "sigma": None, "target_foss": "0.3"}
    found = evaluate(store, texts, tmp_path / "out", calibration="default", **chosen)
    assert {row["method"] for row in found.rows} == set(METHODS.split(","))
    assert len({row["tau"] for row in found.rows if row["method"] == "retomaton"}) <= 2


def test_an_evaluation_makes_it_if_it_is_not_there(walkable_store, texts, tmp_path):
    copy = walkable_store.copy(tmp_path).path
    chosen = {"calibration": "mine", "calibrate_on": texts["calibrate_on"], "methods": "retomaton"}
    evaluate(copy, texts, tmp_path / "out", **chosen)
    assert Store.open(copy).finished("calibrate") == ["mine"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"calibration": "other"}, "stage calibrate/other has not been run"),
        ({"calibration": "default", "k": 16}, "was made with k 32, now it is 16"),
        ({"calibration": "default", "methods": "adaptret"}, "has nothing for adaptret"),
        ({"calibration": "default", "lambda_": 0.5}, "leave those out"),
    ],
)
def test_an_evaluation_refuses_what_does_not_fit(store, texts, tmp_path, changed, said):
    with Unchanged(store), pytest.raises(Exception, match=said):
        evaluate(store, texts, tmp_path / "out", **changed)
    assert not (tmp_path / "out").exists()


def test_text_that_was_calibrated_on_is_not_evaluated(store, texts, tmp_path):
    same = {"text": texts["calibrate_on"]}
    said = "calibration 'default': its text .* has the same contents as .*, which is evaluated"
    with pytest.raises(BadInput, match=said):
        evaluate(store, {**texts, **same}, tmp_path / "out", calibration="default")


def test_bad_input_leaves_no_trace(walkable_store, command, tmp_path):
    store = walkable_store.path
    with Unchanged(store):
        check_refused(command("calibrate", store), "--on is needed")
        check_refused(command("calibrate", store, "--on", tmp_path / "no.txt"), "--on", "no.txt")
        text = tmp_path / "blank.txt"
        text.write_text(" \n\n")
        quiet = ("--workers", "0", "--progress", "none")
        check_refused(command("calibrate", store, "--on", text, *quiet), "--on", "only blanks")
        bad = ("--target-foss", "1.5")
        check_refused(command("calibrate", store, "--on", text, *bad), "--target-foss 1.5")
        check_refused(command("calibrate", store, "--on", text, "--name", "a/b"), "--name a/b")
    check_refused(command("calibrate", tmp_path / "no.store", "--on", text), "no such store")


def test_a_suffix_index_that_was_named_and_is_not_there_is_refused(store, texts):
    with Unchanged(store), pytest.raises(StageMissing, match="suffix/nope has not been run"):
        calibrate(store, texts, name="other", methods=None, suffixes="nope")
