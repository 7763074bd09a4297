"""Networks trained anew on other draws of the calibration text."""

import numpy as np
import pytest

from retomaton_dist.engine.online import log_target
from retomaton_dist.engine.walks import WalkSpec
from retomaton_dist.evaluation.measure import Measurer
from retomaton_dist.evaluation.retraining import redraws, retrain
from retomaton_dist.evaluation.shortlist import ShortlistedPoint
from retomaton_dist.methods.adaptive import Redraw
from retomaton_dist.methods.method import Setup
from retomaton_dist.methods.mixture_network import SEED
from retomaton_dist.methods.registry import METHODS
from tests.evaluation.scored import random_walked, scores_of

DOCUMENTS = np.repeat(np.arange(24), np.arange(3, 15).repeat(2))
SETUP = Setup(("kmeans",), {"kmeans": (4.0, np.inf)}, fractions=(0.0,))
LABELS = ("knnlm", "knnlm+wide", "kmeans@4", "kmeans@inf")
LEARNED = ("knnlm+lambda", "retomaton+lambda")


def scored(folder, seed):
    random = np.random.default_rng(seed)
    folder.mkdir()
    walks = {label: random_walked(random, len(DOCUMENTS)) for label in LABELS}
    return scores_of(folder, DOCUMENTS, walks, random)


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    return scored(tmp_path_factory.mktemp("scored") / "calibration", 1)


@pytest.fixture(scope="module")
def found(calibration):
    return {name: METHODS[name].calibrate(calibration, SETUP) for name in LEARNED}


@pytest.fixture(scope="module")
def points(tmp_path_factory, found):
    text = scored(tmp_path_factory.mktemp("scored") / "text", 2)
    made = [point for name in LEARNED for point in METHODS[name].points(SETUP, found[name])]
    measurer = Measurer(text.document, 9)
    return [ShortlistedPoint(point, measurer.measure(point, text), text) for point in made]


def test_a_draw_has_whole_documents(calibration):
    drawn = [redraw.rows for redraw in redraws(calibration, 5)]
    for rows in drawn:
        times = np.bincount(rows, minlength=len(DOCUMENTS))
        for document in np.unique(DOCUMENTS):
            assert len(set(times[document == DOCUMENTS])) == 1
    assert len({tuple(rows) for rows in drawn}) == 5


def test_every_network_is_another_one_and_all_methods_learn_from_the_same_draws(
    points, calibration, found
):
    described = retrain(points, calibration, SETUP, found, 2)
    assert [one["method"] for one in described] == ["knnlm+lambda", *["retomaton+lambda"] * 2]
    for one in described:
        assert len({one["perplexity"], *one["perplexities"]}) == 3
    baseline, walk = described[0], described[1]
    assert (baseline["baseline"], walk["baseline"]) == (None, "knnlm+lambda")
    pairs = zip(walk["perplexities"], baseline["perplexities"], strict=True)
    assert walk["ratios"] == pytest.approx([own / other for own, other in pairs])


def test_trained_on_the_calibration_text_itself_it_is_the_network_that_was_calibrated(
    points, calibration, found
):
    method, walk = METHODS["retomaton+lambda"], points[-1]
    specs = [WalkSpec("kmeans", tau) for tau in SETUP.taus["kmeans"]]
    whole = Redraw(np.arange(len(DOCUMENTS)), SEED)
    mixing = method.retrain(found[method.name], calibration, specs, whole)
    again = log_target(
        mixing, walk.scores, walk.scores.walk(walk.point.spec.label), walk.scores.document
    )
    assert again == pytest.approx(walk.measured.log_p)
