"""Whether probabilities mean what they say."""

import numpy as np
import pytest

from retomaton_dist.analysis.reliability import reliability


def test_bins_have_the_mean_probability_and_how_often_the_favourite_came():
    log_p = np.log([0.25, 0.21, 0.95, 1.0, 0.001])
    found = reliability(log_p, np.array([True, False, True, True, False]))
    low, middle, high = found["bins"]
    assert (low["tokens"], middle["tokens"], high["tokens"]) == (1, 2, 2)
    assert (middle["said"], middle["came"]) == (pytest.approx(0.23), 0.5)
    assert (high["said"], high["came"]) == (pytest.approx(0.975), 1.0)
    assert found["error"] == pytest.approx((0.001 + 2 * 0.27 + 2 * 0.025) / 5)
    assert (found["said"], found["came"]) == (pytest.approx(0.4822), 0.6)


def test_probabilities_that_are_right_have_hardly_an_error_and_bold_ones_have():
    random = np.random.default_rng(0)
    truth = random.random(100_000)
    came = random.random(len(truth)) < truth
    assert reliability(np.log(truth), came)["error"] < 0.01
    assert reliability(np.log(np.sqrt(truth)), came)["error"] > 0.1


def test_a_favourite_that_is_impossible_is_in_the_first_bin():
    found = reliability(np.array([-np.inf]), np.array([False]))
    assert found["bins"] == [{"said": 0.0, "came": 0.0, "tokens": 1}]
