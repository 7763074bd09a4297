"""Thresholds: chosen by the fraction of saved searches that they have on held-out text."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retomaton_dist.calibration.thresholds import (
    COARSE,
    TriedRestart,
    restart_for,
    spread_taus,
    tau_for,
    unbeaten_restarts,
)
from retomaton_dist.methods.method import Restart

FALLING = [0.8, 0.6, 0.5, 0.3, 0.1, 0.0]
curves = st.lists(st.floats(0, 0.95), min_size=5, max_size=5).map(
    lambda found: [*sorted(found, reverse=True), 0.0]
)

tried = st.lists(st.tuples(st.floats(0, 1), st.floats(-9, -1)), min_size=1, max_size=20).map(
    lambda found: [TriedRestart(Restart(n + 1.0, 0.0), *item) for n, item in enumerate(found)]
)


@pytest.mark.parametrize("place", range(5))
def test_a_fraction_that_was_measured_gives_the_threshold_it_was_measured_at(place):
    assert tau_for(FALLING[place], COARSE, FALLING) == COARSE[place]


def test_what_lies_between_is_interpolated_in_the_logarithm():
    assert tau_for(0.7, COARSE, FALLING) == 2.0
    assert tau_for(0.55, COARSE, FALLING) == 8.0


def test_nothing_saved_is_a_search_at_every_position():
    assert tau_for(0.0, COARSE, FALLING) == math.inf


def test_more_than_any_threshold_saves_is_the_smallest_threshold():
    assert tau_for(0.95, COARSE, FALLING) == 1.0


@given(curves, st.floats(0, 0.99), st.floats(0, 0.99))
@example([0.75, 1.1125369292536007e-308, 0.0, 0.0, 0.0, 0.0], 0.5, 2.2250738585e-313)
def test_who_asks_for_more_saved_searches_never_gets_a_larger_threshold(foss, one, other):
    fewer, more = sorted((one, other))
    assert 1.0 <= tau_for(more, COARSE, foss) <= tau_for(fewer, COARSE, foss)


@given(curves)
def test_thresholds_spread_from_1_to_infinity(foss):
    found = spread_taus(COARSE, foss)
    assert list(found) == sorted(set(found))
    assert found[0] == 1.0
    assert found[-1] == math.inf
    assert len(found) <= 8


def test_small_exceptions_to_falling_do_not_confuse():
    bumpy = [0.8, 0.6, 0.61, 0.3, 0.1, 0.0]
    targets = np.linspace(0.01, 0.9, 30)
    found = [tau_for(target, COARSE, bumpy) for target in targets]
    assert found == sorted(found, reverse=True)


@given(tried)
def test_no_pair_beats_one_that_is_kept(items):
    measured = {item.restart: item for item in items}
    found = [measured[restart] for restart in unbeaten_restarts(items)]
    assert 1 <= len(found) <= 8
    for one in found:
        assert not any(o.foss > one.foss and o.log_p > one.log_p for o in items)
    assert [item.foss for item in found] == sorted((item.foss for item in found), reverse=True)
    assert found[0].foss == max(item.foss for item in items)
    assert found[-1].log_p == max(item.log_p for item in items)


@given(tried, st.floats(0, 1))
def test_a_target_gets_the_likeliest_pair_that_saves_as_much(items, target):
    measured = {item.restart: item for item in items}
    found = measured[restart_for(target, items)]
    most = max(item.foss for item in items)
    assert found.foss >= min(target, most)
    assert all(item.log_p <= found.log_p for item in items if item.foss >= min(target, most))
