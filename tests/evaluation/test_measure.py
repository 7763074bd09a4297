"""From points to rows of results: FoSS, perplexities, and what a closed gate leaves."""

import math

import numpy as np
import pytest

from retomaton_dist.engine.walks import WalkSpec, stateless_walk
from retomaton_dist.evaluation.measure import Measurer, matched_baseline
from retomaton_dist.methods.constant import ConstantMixing, Constants
from retomaton_dist.methods.knnlm import RandomGate
from retomaton_dist.methods.lm import LmAlone
from retomaton_dist.methods.method import CurvePoint
from tests.evaluation.scored import random_walked, scores_of

DOCUMENTS = np.repeat(np.arange(2, 27), [28, *[3] * 24])
SPECS = {"knnlm": stateless_walk("kmeans"), "kmeans@4": WalkSpec("kmeans", 4.0)}
MIXING = ConstantMixing(Constants(0.4, 2.0))


@pytest.fixture
def scores(tmp_path):
    random = np.random.default_rng(0)
    walks = {
        "knnlm": random_walked(random, len(DOCUMENTS), searched=1.0, empty=0.0),
        "kmeans@4": random_walked(random, len(DOCUMENTS)),
    }
    return scores_of(tmp_path, DOCUMENTS, walks, random)


def measured(point, scores, words=40, duplicates=frozenset()):
    return Measurer(scores.document, words, duplicates).measure(point, scores)


def test_foss_is_over_all_positions(scores):
    row = measured(CurvePoint("retomaton", SPECS["kmeans@4"], MIXING), scores).row
    searches = int(scores.searched("kmeans@4").sum())
    assert (row["positions"], row["searches"]) == (len(DOCUMENTS), searches)
    assert row["foss"] == 1 - searches / len(DOCUMENTS)
    assert (row["clustering"], row["tau"], row["walk"]) == ("kmeans", 4.0, "kmeans@4")


def test_infinity_is_text_in_results(scores):
    point = CurvePoint("retomaton", WalkSpec("kmeans", math.inf), MIXING)
    assert Measurer(scores.document, 1)._described(point)["tau"] == "inf"


def test_the_lm_saves_all_searches_and_has_its_own_perplexity(scores):
    row = measured(CurvePoint("lm", None, LmAlone()), scores).row
    log_lm = scores.log_lm.astype(np.float64)
    assert (row["foss"], row["searches"], row["walk"]) == (1.0, 0, None)
    assert row["perplexity"] == pytest.approx(math.exp(-log_lm.mean()), rel=1e-12)


def test_perplexity_per_word_shares_the_loss_among_words(scores):
    row = measured(CurvePoint("lm", None, LmAlone()), scores, words=40).row
    total = -float(scores.log_lm.astype(np.float64).sum())
    assert row["perplexity_per_word"] == pytest.approx(math.exp(total / 40), rel=1e-12)
    assert (
        measured(CurvePoint("lm", None, LmAlone()), scores, words=0).row["perplexity_per_word"]
        is None
    )


def test_where_a_gate_is_closed_the_lm_is_alone_and_nothing_is_searched(scores):
    gate = RandomGate(0.6)
    point = CurvePoint("knnlm", SPECS["knnlm"], MIXING, gate, {"fraction": 0.6})
    found = measured(point, scores)
    whole = measured(CurvePoint("knnlm", SPECS["knnlm"], MIXING), scores)
    opened = gate(scores.whole(), scores.document, scores.position)
    assert 0 < opened.sum() < len(opened)
    assert np.array_equal(found.searched, opened)
    assert np.array_equal(found.log_p[~opened], scores.log_lm[~opened].astype(np.float64))
    assert np.array_equal(found.log_p[opened], whole.log_p[opened])
    assert found.row["foss"] == 1 - opened.mean()
    assert found.row["fraction"] == 0.6
    assert found.row["clustering"] is None


def test_baselines_with_all_their_searches_are_what_later_points_compare_with(scores):
    points = [
        CurvePoint("lm", None, LmAlone()),
        CurvePoint("knnlm", SPECS["knnlm"], MIXING),
        CurvePoint("knnlm", SPECS["knnlm"], MIXING, RandomGate(0.5), {"fraction": 0.5}),
        CurvePoint("knnlm+wide", SPECS["knnlm"], ConstantMixing(Constants(0.7, 2.0))),
        CurvePoint("retomaton", SPECS["kmeans@4"], MIXING),
        CurvePoint("retomaton+lambda", SPECS["kmeans@4"], MIXING),
    ]
    measurer = Measurer(scores.document, 9)
    rows = [measurer.measure(point, scores).row for point in points]
    assert rows[0]["against_knnlm"] is None
    assert rows[1]["against_knnlm"] is None
    for row in rows[2:]:
        against = row["against_knnlm"]
        assert against["ratio"] == pytest.approx(row["perplexity"] / rows[1]["perplexity"])
        assert against["interval"][0] < against["ratio"] < against["interval"][1]
    wide, walked, learned = rows[3:]
    assert walked["baseline"] == "knnlm+wide"
    assert walked["against"]["ratio"] == pytest.approx(walked["perplexity"] / wide["perplexity"])
    assert (learned["baseline"], learned["against"]) == ("knnlm+lambda", None), "it did not run"


def test_fewer_than_20_documents_have_no_intervals(tmp_path):
    random = np.random.default_rng(0)
    scores = scores_of(tmp_path, np.repeat(np.arange(19), 5), {}, random)
    row = measured(CurvePoint("lm", None, LmAlone()), scores).row
    assert row["interval"] is None


def test_without_duplicates_the_other_documents_are_measured_alone(scores):
    points = [
        CurvePoint("knnlm", SPECS["knnlm"], MIXING),
        CurvePoint("knnlm+wide", SPECS["knnlm"], ConstantMixing(Constants(0.7, 2.0))),
    ]
    measurer = Measurer(scores.document, 9, frozenset({2, 5, 99}))
    plain, wide = (measurer.measure(point, scores) for point in points)
    rows = ~np.isin(DOCUMENTS, [2, 5])
    found = wide.row["without_duplicates"]
    assert found["perplexity"] == pytest.approx(math.exp(-wide.log_p[rows].mean()))
    expected = found["perplexity"] / plain.row["without_duplicates"]["perplexity"]
    assert found["against"]["ratio"] == pytest.approx(expected)
    low, high = found["against"]["interval"]
    assert low < found["against"]["ratio"] < high
    assert plain.row["without_duplicates"]["against"] is None


@pytest.mark.parametrize("duplicates", [frozenset(), frozenset({99}), frozenset(range(99))])
def test_where_no_or_every_document_is_a_duplicate_there_is_no_second_column(scores, duplicates):
    row = measured(CurvePoint("lm", None, LmAlone()), scores, duplicates=duplicates).row
    assert row["without_duplicates"] is None


def test_documents_that_are_worse_than_with_the_lm_alone_are_counted_and_the_worst_named(scores):
    point = CurvePoint("retomaton", SPECS["kmeans@4"], MIXING)
    measurer = Measurer(scores.document, 9, name_of="document {}".format)
    found = measurer.measure(point, scores)
    ratios = {
        number: math.exp((scores.log_lm - found.log_p)[number == DOCUMENTS].mean())
        for number in np.unique(DOCUMENTS).tolist()
    }
    worst = max(ratios, key=ratios.get)
    worse = found.row["worse_than_lm"]
    assert 0 < worse["documents"] == sum(ratio > 1 for ratio in ratios.values()) < len(ratios)
    assert worse["worst"] == f"document {worst}"
    assert worse["ratio"] == pytest.approx(ratios[worst])


def test_the_lm_is_nowhere_worse_than_itself(scores):
    row = measured(CurvePoint("lm", None, LmAlone()), scores).row
    assert row["worse_than_lm"] == {"documents": 0, "worst": None, "ratio": None}


@pytest.mark.parametrize(
    ("method", "searching", "never"),
    [
        ("retomaton", "knnlm+wide", "knnlm+wide"),
        ("retomaton+suffix", "knnlm+wide", "suffix"),
        ("retomaton+suffix+lambda", "knnlm+lambda", "suffix+lambda"),
        ("retomaton+suffix+ngram+cache", "knnlm+ngram+cache", "suffix+ngram+cache"),
    ],
)
def test_a_walk_is_compared_with_what_searches_or_never_does_as_it_does(method, searching, never):
    assert matched_baseline(method, 7) == searching
    assert matched_baseline(method, 0) == never


def test_a_text_of_very_long_words_has_no_perplexity_per_word(scores):
    scores.__dict__["log_lm"] = np.full(len(DOCUMENTS), -20.0, np.float32)
    row = measured(CurvePoint("lm", None, LmAlone()), scores, words=2).row
    assert row["perplexity"] == pytest.approx(math.exp(20))
    assert row["perplexity_per_word"] is None
