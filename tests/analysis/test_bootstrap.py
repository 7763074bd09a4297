"""Confidence intervals: over documents, the same draws for all methods, none from few documents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.analysis import bootstrap as module
from retomaton_dist.analysis.bootstrap import Resampling, why_no_intervals


def random_rows(seed, documents=40, longest=30):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, longest, documents)
    numbers = np.repeat(np.sort(random.choice(1000, documents, replace=False)), sizes)
    return numbers.astype(np.int32), random.normal(-3, 1, len(numbers))


@pytest.mark.parametrize("documents", [1, 2, 19])
def test_fewer_than_20_documents_have_no_interval_and_one_sentence_says_so(documents):
    numbers, rows = random_rows(0, documents)
    resampling = Resampling.of(numbers)
    assert resampling.interval(rows) is None
    assert resampling.ratio(rows, rows) is None
    assert resampling.ratio_among(rows, rows < 0) is None
    said = why_no_intervals(documents)
    assert said.startswith(f"The text has {documents} document{'s' if documents > 1 else ''}: ")


def test_20_documents_have_intervals_and_nothing_is_said():
    numbers, rows = random_rows(0, 20)
    low, high = Resampling.of(numbers).interval(rows)
    assert low < np.exp(-rows.mean()) < high
    assert why_no_intervals(20) is None


def test_a_method_compared_with_itself_is_exactly_equal():
    numbers, rows = random_rows(0)
    assert Resampling.of(numbers).ratio(rows, rows.copy()) == (1.0, 1.0)


def test_the_same_text_has_the_same_intervals():
    numbers, rows = random_rows(1)
    assert Resampling.of(numbers).interval(rows) == Resampling.of(numbers).interval(rows)


@given(st.integers(0, 2**31))
@settings(max_examples=20)
def test_the_interval_holds_the_perplexity(seed):
    numbers, rows = random_rows(seed)
    low, high = Resampling.of(numbers).interval(rows)
    assert low < np.exp(-rows.mean()) < high


def test_the_interval_is_that_of_drawing_documents_the_slow_way(monkeypatch):
    monkeypatch.setattr(module, "DRAWS", 50)
    numbers, rows = random_rows(3)
    resampling = Resampling.of(numbers)
    parts = [rows[numbers == number] for number in np.unique(numbers)]
    found = []
    for draw in resampling.draws:
        assert draw.sum() == len(parts)
        chosen = [part for part, times in zip(parts, draw, strict=True) for _ in range(int(times))]
        found.append(np.exp(-np.concatenate(chosen).mean()))
    expected = np.quantile(np.log(found), [0.025, 0.975])
    assert np.log(resampling.interval(rows)) == pytest.approx(expected)


def test_pairs_of_methods_share_draws_so_that_a_constant_gap_is_certain():
    numbers, rows = random_rows(4)
    assert Resampling.of(numbers).ratio(rows - 0.1, rows) == pytest.approx([np.exp(0.1)] * 2)


def test_very_many_documents_share_places_and_none_is_lost(monkeypatch):
    monkeypatch.setattr(module, "MOST_GROUPS", 7)
    numbers, rows = random_rows(5)
    resampling = Resampling.of(numbers)
    assert resampling.draws.shape[1] == 7
    assert resampling.counts.sum() == len(rows)
    assert resampling.totals(rows).sum() == pytest.approx(rows.sum())
    ends = np.cumsum(resampling.counts).astype(int)[:-1]
    assert (numbers[ends - 1] != numbers[ends]).all(), "no document is cut"
    low, high = resampling.interval(rows)
    assert low < np.exp(-rows.mean()) < high


def test_the_interval_of_some_rows_is_that_of_a_text_of_these_rows_alone():
    numbers, rows = random_rows(6)
    chosen = np.arange(len(rows)) % 3 == 0
    resampling = Resampling.of(numbers)
    everything = np.ones(len(rows), np.bool_)
    assert resampling.ratio_among(-rows, everything) == pytest.approx(resampling.interval(rows))
    alone = resampling.ratio_among(np.where(chosen, 0.5, 9.0), chosen)
    assert alone == pytest.approx([np.exp(0.5)] * 2)
    few = np.isin(numbers, np.unique(numbers)[:19])
    assert resampling.ratio_among(-rows, few) is None


def test_sums_by_document_say_as_much_as_rows():
    numbers, rows = random_rows(7)
    other, resampling = rows[::-1].copy(), Resampling.of(numbers)
    totals = resampling.totals(rows), resampling.totals(other)
    assert resampling.ratio_of_totals(*totals) == resampling.ratio(rows, other)
