"""Constants: the mixture is what the formula says, and the best ones beat a fine grid."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from retomaton_dist.automaton.sums import ALL, OTHER, POINTED, TARGET
from retomaton_dist.methods.constant import Constants, best_constants, best_weight, log_mixture

GRID = (0.5, 1.0, 2.0, 4.0)
seeds = st.integers(0, 2**31)


def random_sums(seed, rows):
    """Log-sums of random candidates; some rows have none, some none of the target."""
    random = np.random.default_rng(seed)
    targets = np.log(random.random((rows, len(GRID), 2)))
    targets[random.random(rows) < 0.3] = -np.inf
    everything = np.logaddexp(targets, np.log(random.random((rows, len(GRID), 2))))
    sums = np.stack([targets, everything], axis=2)
    sums[random.random(rows) < 0.2] = -np.inf
    return sums.astype(np.float32), np.log(random.random(rows)).astype(np.float32)


@given(seeds, st.floats(0, 1), st.sampled_from(GRID), st.sampled_from([1.0, 8.0]))
def test_the_mixture_is_what_the_formula_says(seed, weight, temperature, pointer_weight):
    sums, log_lm = random_sums(seed, 20)
    constants = Constants(weight, temperature, pointer_weight)
    found = log_mixture(sums, GRID, log_lm, constants)
    column = np.exp(sums[:, GRID.index(temperature)].astype(np.float64))
    for row, weights in enumerate(column):
        p_lm = math.exp(float(log_lm[row]))
        every = pointer_weight * weights[ALL, POINTED] + weights[ALL, OTHER]
        alike = pointer_weight * weights[TARGET, POINTED] + weights[TARGET, OTHER]
        expected = weight * alike / every + (1 - weight) * p_lm if every else p_lm
        assert math.exp(found[row]) == pytest.approx(expected, rel=1e-9, abs=1e-12)


logs = hnp.arrays(np.float64, 25, elements=st.floats(-30, 0))


@given(logs, logs, st.lists(st.integers(0, 24)), st.lists(st.integers(0, 24)))
def test_no_weight_of_a_fine_grid_is_better_than_the_best(log_auto, log_lm, without, never):
    log_auto[never] = -np.inf
    log_auto[without] = np.nan
    lm = log_lm.astype(np.float32)
    weight, value = best_weight(log_auto, lm)
    assert 0.001 <= weight <= 0.999
    grid = np.linspace(0.001, 0.999, 999)
    losses = [_mean(log_auto, lm, candidate) for candidate in grid]
    assert value == pytest.approx(_mean(log_auto, lm, weight), abs=1e-6)
    assert value >= max(losses) - 1e-4


def _mean(log_auto, log_lm, weight):
    with np.errstate(invalid="ignore"):
        mixed = np.logaddexp(np.log(weight) + log_auto, np.log1p(-weight) + log_lm)
    return float(np.where(np.isnan(log_auto), log_lm, mixed).mean())


@given(seeds)
def test_best_constants_are_the_best_of_temperatures_and_pointer_weights(seed):
    sums, log_lm = random_sums(seed, 30)
    pointer_weights = (1.0, 4.0, 16.0)
    best = best_constants(sums, GRID, log_lm, pointer_weights=pointer_weights)
    assert best.temperature in GRID[1:-1], "its neighbours must be on the grid, too"
    value = log_mixture(sums, GRID, log_lm, best).mean()
    for temperature in GRID[1:-1]:
        for pointer_weight in pointer_weights:
            for weight in np.linspace(0.001, 0.999, 50):
                other = Constants(float(weight), temperature, pointer_weight)
                assert value >= log_mixture(sums, GRID, log_lm, other).mean() - 1e-4


def test_constants_that_are_given_stay():
    sums, log_lm = random_sums(3, 30)
    found = best_constants(sums, GRID, log_lm, weight=0.25, temperature=2.0)
    assert found == Constants(0.25, 2.0, 1.0)
    assert best_constants(sums, GRID, log_lm, temperature=1.0).temperature == 1.0
    assert best_constants(sums, GRID, log_lm, weight=0.0).weight == 0.0
