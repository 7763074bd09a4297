"""Methods by name, and the points that each of them asks for."""

import math

import numpy as np
import pytest

from retomaton_dist.engine.online import log_target
from retomaton_dist.errors import BadInput
from retomaton_dist.evaluation.measure import walked_by
from retomaton_dist.methods import adaptive
from retomaton_dist.methods.method import Restart, Searching, Setup
from retomaton_dist.methods.mixture_network import train_mixture
from retomaton_dist.methods.registry import METHODS, choose_methods
from retomaton_dist.methods.token_statistics import TokenStatistics
from tests.evaluation.scored import random_walked, scores_of

SETUP = Setup(
    ("kmeans", "none"),
    {"kmeans": (1.0, math.inf), "none": (2.0, math.inf)},
    {
        "kmeans": (Restart(1.0, 0.0, 0.0), Restart(4.0, 2.0, 0.25)),
        "none": (Restart(math.inf, math.inf), Restart(1.0, 0.0, 0.0)),
    },
    fractions=(0.0, 0.5),
    statistics=lambda: TokenStatistics(np.ones(10, np.float32), np.ones(10, np.float32)),
    # Its online temperature, 2.0, and half and double of it are among those of made-up walks.
    distance=lambda: 64.0,
)
LABELS = ["knnlm", "knnlm+wide", "kmeans@1", "kmeans@inf", "none@2", "none@inf"]
# Pairs, the same at every position, and at random.
RESTARTS = ["kmeans@1,0", "kmeans@4,2", "none@1,0"]
RESTARTS += ["kmeans@inf,0", "kmeans@inf,2", "none@inf,0", "kmeans@4,inf,0.25", "suffix"]


def test_all_methods_of_the_paper_and_ours_are_there():
    named = ["lm", "knnlm", "knnlm+wide", "knnlm+lambda", "adaptret", "suffix", "suffix+lambda"]
    named += ["retomaton", "retomaton+pw", "retomaton+lambda"]
    named += ["retomaton+suffix", "retomaton+random", "retomaton+suffix+lambda"]
    named += ["ngram", "lm+cache", "lm+ngram"]
    walks = ["lm", "knnlm", "suffix", "retomaton", "retomaton+suffix"]
    named += [f"{walk}+ngram+cache" for walk in walks] + ["lm+cache+lambda"]
    named += [f"{walk}+ngram+cache+lambda" for walk in walks]
    assert list(METHODS) == named
    assert [method.name for method in choose_methods(None)] == named


def test_methods_come_in_one_order_whatever_is_asked_for():
    found = choose_methods("retomaton, lm,knnlm,lm")
    assert [method.name for method in found] == ["lm", "knnlm", "retomaton"]


@pytest.mark.parametrize("names", ["knn", "lm,retomaton+", "", " , "])
def test_unknown_names_are_refused_in_one_line_that_tells_the_known_ones(names):
    with pytest.raises(BadInput, match=r"--methods .*choose from lm, knnlm") as caught:
        choose_methods(names)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", list(METHODS))
def test_every_point_is_measured_from_a_walk_that_its_method_asked_for(name, tmp_path):
    method, random = METHODS[name], np.random.default_rng(0)
    documents = np.repeat(np.arange(10), 20)
    walks = {label: random_walked(random, 200) for label in (*LABELS, *RESTARTS)}
    for label in ("knnlm", "knnlm+wide"):
        walks[label] = random_walked(random, 200, searched=1.0, empty=0.0)
    queries = random.normal(size=(200, 8)).astype(np.float16)
    scores = scores_of(tmp_path, documents, walks, random, queries)
    points = list(method.points(SETUP, method.calibrate(scores, SETUP)))
    asked = set(method.walks(SETUP))
    assert {point.spec for point in points if point.spec} == asked
    assert {spec.label for spec in (*asked, *method.calibration_walks(SETUP))} <= set(walks)
    assert len({(point.pass_name, point.method) for point in points}) == len(points)
    for point in points:
        log_p = log_target(point.mixing, scores, walked_by(point, scores), scores.document)
        assert log_p.shape == (200,)
        assert np.isfinite(log_p).all()
        assert (log_p < 1e-6).all()


def test_what_tells_when_to_stop_learning_is_learned_from_in_no_walk(tmp_path, monkeypatch):
    held = []

    def watched(features, logs, chosen, **others):
        held.append(chosen)
        return train_mixture(features, logs, chosen, **others)

    monkeypatch.setattr(adaptive, "train_mixture", watched)
    random = np.random.default_rng(0)
    walks = {label: random_walked(random, 100) for label in LABELS}
    scores = scores_of(tmp_path, np.zeros(100), walks, random)
    METHODS["retomaton+lambda"].calibrate(scores, SETUP)
    assert len(held) == 2
    for chosen in held:
        assert np.array_equal(chosen[:100], chosen[100:]), "the same positions of both taus"
        assert chosen[:100].sum() == 15


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_of_itself_what_its_walks_need(name):
    method = METHODS[name]
    walks = [*method.walks(SETUP), *method.calibration_walks(SETUP)]
    assert any(spec.looks_up for spec in walks) == method.uses_suffixes
    assert any(spec.searches for spec in walks) == (method.searching is not Searching.NEVER)


@pytest.mark.parametrize("name", METHODS)
def test_without_held_out_text_a_method_that_learns_says_what_it_lacks(name):
    method = METHODS[name]
    if method.learns:
        with pytest.raises(BadInput, match="--calibrate-on"):
            method.calibrate(None, SETUP)
    else:
        assert list(method.points(SETUP, method.calibrate(None, SETUP)))


def test_gains_are_stated_against_the_same_without_the_automaton():
    found = {name: method.baseline for name, method in METHODS.items()}
    for name, baseline in found.items():
        if name.startswith("retomaton"):
            learned = "+lambda" if name.endswith("+lambda") else ""
            if "ngram" in name:
                expected = "suffix+ngram+cache" if "suffix" in name else "knnlm+ngram+cache"
                assert baseline == expected + learned
            else:
                assert baseline == (f"knnlm{learned}" if learned else "knnlm+wide")
    order = list(METHODS)
    for name, baseline in found.items():
        if name not in ("lm", "knnlm"):
            assert order.index(baseline) < order.index(name), "it must be measured first"
