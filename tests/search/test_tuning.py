"""Tuning against curves of known shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.search.tuning import tune


@given(st.integers(1, 200))
def test_the_target_is_reached_with_little_more_than_is_needed(needed):
    tuned = tune(lambda chosen: min(1, chosen["nprobe"] / needed), {}, "nprobe", 256, 1.0)
    assert tuned.recall == 1
    assert needed <= tuned.parameters["nprobe"] <= max(needed + 1, needed * 1.25)


def test_a_target_that_codes_cannot_reach_stops_where_more_work_gains_nothing():
    def limited(chosen):
        return min(0.8, 0.1 * chosen["nprobe"])

    tuned = tune(limited, {}, "nprobe", 4096, 0.9)
    assert tuned.recall == 0.8
    assert tuned.parameters == {"nprobe": 8}


def test_what_the_user_sets_is_only_measured():
    tuned = tune(lambda chosen: 0.25, {"nprobe": 3}, "nprobe", 64, 0.9)
    assert (tuned.parameters, tuned.recall, tuned.tried) == (
        {"nprobe": 3},
        0.25,
        {"nprobe=3": 0.25},
    )


@pytest.mark.parametrize("fixed", [{}, {"ht": 4}])
def test_an_index_without_such_a_parameter_is_only_measured(fixed):
    assert tune(lambda chosen: 1.0, fixed, None, 64, 0.9).parameters == fixed


def test_everything_that_was_tried_is_told():
    tuned = tune(lambda chosen: chosen["nprobe"] / 8, {"ht": 2}, "nprobe", 64, 0.5)
    assert tuned.tried["ht=2,nprobe=1"] == 0.125
    assert tuned.tried["ht=2,nprobe=4"] == 0.5
