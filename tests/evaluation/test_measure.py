"""From points to rows of results: FoSS, perplexities, and what a closed gate leaves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.engine.walks import WalkSpec, stateless_walk
from retomaton_dist.evaluation.measure import Measurer, _after_last_search, measure_all
from retomaton_dist.methods.constant import ConstantMixing, Constants
from retomaton_dist.methods.knnlm import RandomGate
from retomaton_dist.methods.lm import LmAlone
from retomaton_dist.methods.method import CurvePoint
from tests.evaluation.scored import random_walked, scores_of

DOCUMENTS = np.repeat([2, 3, 7, 9], [40, 1, 30, 29])
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


def measured(point, scores, words=40):
    return Measurer(scores.document, words).measure(point, scores, {})


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
    low, high = row["interval_per_word"]
    assert low < row["perplexity_per_word"] < high
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
    rows = [found.row for _, _, found in measure_all([(p, scores) for p in points], words=9)]
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


def test_a_text_of_very_long_words_has_no_perplexity_per_word(scores):
    scores.__dict__["log_lm"] = np.full(len(DOCUMENTS), -20.0, np.float32)
    row = measured(CurvePoint("lm", None, LmAlone()), scores, words=2).row
    assert row["perplexity"] == pytest.approx(math.exp(20))
    assert row["perplexity_per_word"] is None
    assert row["interval_per_word"] is None


searches = st.lists(st.lists(st.booleans(), min_size=1, max_size=8), min_size=1, max_size=6)


@given(searches)
def test_the_authors_foss_does_not_count_what_follows_a_documents_last_search(listed):
    numbers = np.repeat(np.arange(len(listed)), [len(found) for found in listed]).astype(np.int32)
    searched = np.concatenate([np.array(found, np.bool_) for found in listed])
    saved = count = 0
    for found in listed:
        run = 0
        for searches_here in found:
            run = 0 if searches_here else run + 1
            saved += 0 if searches_here else 1
            count += 1
        saved -= run
        count -= run
    dropped = _after_last_search(numbers, searched)
    assert len(searched) - dropped == count
    point = CurvePoint("retomaton", SPECS["kmeans@4"], MIXING)
    row = Measurer(numbers, 1)._counted(point, searched)
    expected = saved / count if count else None
    assert row["reference_foss"] == (pytest.approx(expected) if count else None)
