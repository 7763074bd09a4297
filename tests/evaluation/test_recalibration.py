"""Constants fitted anew on draws of the calibration text, against fitting them the slow way."""

import math

import numpy as np
import pytest

from retomaton_dist.analysis import bootstrap as module
from retomaton_dist.analysis.bootstrap import Resampling
from retomaton_dist.engine.walks import WalkSpec, stateless_walk
from retomaton_dist.evaluation.measure import Measurer
from retomaton_dist.evaluation.recalibration import recalibrate, refit
from retomaton_dist.evaluation.shortlist import ShortlistedPoint
from retomaton_dist.methods.constant import ConstantMixing, Constants, best_constants, log_mixture
from retomaton_dist.methods.lm import LmAlone
from retomaton_dist.methods.method import CurvePoint
from tests.evaluation.scored import TEMPERATURES, random_walked, scores_of

DOCUMENTS = np.repeat(np.arange(24), np.arange(3, 15).repeat(2))
KNNLM, WALK = stateless_walk("kmeans"), WalkSpec("kmeans", 4.0)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(module, "DRAWS", 40)


def scored(folder, seed, *labels):
    random = np.random.default_rng(seed)
    folder.mkdir()
    walks = {label: random_walked(random, len(DOCUMENTS)) for label in labels}
    return scores_of(folder, DOCUMENTS, walks, random)


@pytest.fixture
def calibration(tmp_path):
    return scored(tmp_path / "calibration", 1, "knnlm", "kmeans@inf")


@pytest.fixture
def text(tmp_path):
    return scored(tmp_path / "text", 2, "knnlm", "kmeans@4")


def test_a_draw_has_the_constants_that_its_documents_alone_would_have(calibration):
    fitting = Resampling.of(calibration.document)
    found = refit(calibration, "knnlm", TEMPERATURES[1:-1], 1.0, fitting)
    sums = calibration.walk("knnlm").sums
    for draw, place in zip(fitting.draws[:10], found.chosen, strict=False):
        rows = np.repeat(np.arange(len(DOCUMENTS)), draw.astype(int)[DOCUMENTS])
        log_lm = calibration.log_lm[rows]
        expected = best_constants(sums[rows], TEMPERATURES, log_lm)
        mine = found.constants[place]
        values = [
            log_mixture(sums[rows], TEMPERATURES, log_lm, one).mean() for one in (mine, expected)
        ]
        assert values[0] == pytest.approx(values[1], abs=1e-3)
        assert mine.weight == pytest.approx(min(max(expected.weight, 0.01), 0.99), abs=0.011)


def listed(text, *points):
    measurer = Measurer(text.document, 9)
    return [ShortlistedPoint(point, measurer.measure(point, text), text) for point in points]


def constants_of(spec, method):
    return CurvePoint(method, spec, ConstantMixing(Constants(0.4, 2.0)))


def test_points_with_constants_get_intervals_and_ratios_to_the_baseline(text, calibration):
    points = [
        CurvePoint("lm", None, LmAlone()),
        constants_of(KNNLM, "knnlm"),
        constants_of(WALK, "retomaton"),
    ]
    knnlm, walk = recalibrate(listed(text, *points), calibration)
    assert (knnlm["method"], knnlm["ratio_over_both"]) == ("knnlm", None)
    assert (walk["method"], walk["tau"], walk["baseline"]) == ("retomaton", 4.0, "knnlm")
    for one in (knnlm, walk):
        low, high = one["over_calibration"]
        assert one["over_both"][0] < low <= high < one["over_both"][1]
        assert 0.01 <= one["lambda"][0] <= one["lambda"][1] <= 0.99
        assert math.fsum(share for _, share in one["temperatures"]) == pytest.approx(1)
    assert walk["ratio_over_both"][0] < walk["ratio_over_both"][1]


def test_a_point_compared_with_its_equal_has_a_certain_ratio(text, calibration):
    points = [constants_of(KNNLM, "knnlm"), constants_of(KNNLM, "suffix")]
    again = recalibrate(listed(text, *points), calibration)[1]
    assert again["ratio_over_both"] == (1.0, 1.0)


def test_the_fairest_baseline_that_ran_is_the_one(tmp_path):
    calibration = scored(tmp_path / "calibration", 1, "knnlm", "knnlm+wide", "kmeans@inf")
    text = scored(tmp_path / "text", 2, "knnlm", "knnlm+wide", "kmeans@4")
    points = [
        constants_of(KNNLM, "knnlm"),
        constants_of(stateless_walk("kmeans", wide=True), "knnlm+wide"),
        constants_of(WALK, "retomaton"),
    ]
    found = recalibrate(listed(text, *points), calibration)
    assert [one["baseline"] for one in found] == [None, "knnlm", "knnlm+wide"]


def test_a_walk_that_was_not_calibrated_on_is_left_out(text, tmp_path):
    other = scored(tmp_path / "other", 3, "none@inf")
    assert recalibrate(listed(text, constants_of(WALK, "retomaton")), other) == []
