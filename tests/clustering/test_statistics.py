"""The figures of a clustering against numpy, and a histogram to look at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering import statistics
from retomaton_dist.clustering.statistics import giants_of, histogram, see_members, summarise
from tests.clustering.data import DIVISIONS, divided


def made(count, vocabulary, seed):
    chosen = np.random.default_rng(seed)
    return chosen.integers(0, 6, count, np.uint32), chosen.integers(0, vocabulary, count, np.int32)


CASES = st.builds(made, st.integers(1, 40), st.integers(1, 4), st.integers(0, 10**6))


@given(CASES, DIVISIONS)
def test_states_with_several_values_are_counted(case, cuts):
    states, values = case
    sizes, seen = np.zeros(6, np.int64), np.zeros(6, np.int64)
    for part in zip(divided(states, cuts), divided(values, cuts), strict=True):
        see_members(sizes, seen, *part)
    assert sizes.tolist() == np.bincount(states, minlength=6).tolist()
    found = summarise(sizes, seen)
    per_state = [len(set(values[states == state])) for state in set(states)]
    assert found.several_values == sum(count > 1 for count in per_state) / len(per_state)


def test_sizes_are_summed_up():
    sizes = np.array([0, 1, 1, 4, 0, 10])
    found = summarise(sizes, np.zeros(6, np.int64), inertia=32.0, distances=20.0)
    assert (found.states, found.entries, found.empty) == (6, 16, 2)
    assert (found.smallest, found.median, found.largest) == (1, 2.5, 10)
    assert found.p99 == pytest.approx(np.quantile([1, 1, 4, 10], 0.99))
    assert (found.inertia, found.mean_distance) == (32.0, 1.25)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60).filter(any), st.integers(1, 61))
def test_the_figures_are_those_of_all_sizes_however_many_are_looked_at_together(sizes, block):
    counts = np.array(sizes)
    filled, largest = counts[counts > 0], np.argsort(-counts, kind="stable")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "BLOCK", block)
        found = summarise(counts, np.zeros(len(counts), np.int64))
    quantiles = np.quantile(filled, 0.5), np.quantile(filled, 0.99)
    assert (found.median, found.p99) == quantiles
    assert (found.smallest, found.largest) == (filled.min(), filled.max())
    giants = [one for one in largest if counts[one] > max(2, counts.sum() / 100)]
    assert [giant.state for giant in found.giants] == giants


def test_giants_are_reported_with_their_share():
    sizes = np.array([10, 5000, 10, 300, *[10] * 1000])
    entries = sizes.sum()
    found = [(giant.state, giant.size, giant.share) for giant in giants_of(sizes)]
    assert found == [(1, 5000, 5000 / entries), (3, 300, 300 / entries)]


def test_small_states_are_no_giants():
    assert giants_of(np.array([2, 1, 1])) == ()


def test_the_histogram_counts_states_by_powers_of_two():
    sizes = np.array([0, 0, 1, 2, 3, 3, 3, 9])
    lines = histogram(sizes, width=8).splitlines()
    assert [line.split() for line in lines] == [
        ["0", "####", "2"],
        ["1", "##", "1"],
        ["2-3", "########", "4"],
        ["4-7", "0"],
        ["8-15", "##", "1"],
    ]


def test_the_histogram_of_full_states_begins_at_one():
    assert histogram(np.array([1, 1])).split() == ["1", "#" * 40, "2"]
