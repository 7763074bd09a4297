"""Merging against sorting, on inputs that are mostly ties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.search.merge import cut_short, merge, settle, tidy


@st.composite
def shard_results(draw):
    """Results of 1-4 shards for one query: sorted, shards by their entries, gaps at the end."""
    parts, start = [], 0
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(0, 6))
        found = sorted((draw(st.integers(0, 2)), e) for e in range(start, start + size))
        found += [(np.inf, -1)] * draw(st.integers(0 if size else 1, 3))
        parts.append(found)
        start += size
    return parts


def as_arrays(found):
    distances, entries = zip(*found, strict=True)
    return np.array([distances], np.float32), np.array([entries], np.int64)


@given(shard_results(), st.integers(1, 30))
def test_merged_results_are_the_k_first_by_distance_and_entry(parts, k):
    distances, entries = merge([as_arrays(part) for part in parts], k)
    real = sorted(pair for part in parts for pair in part if pair[1] >= 0)
    expected = (real + [(np.inf, -1)] * k)[:k]
    assert list(zip(distances[0], entries[0], strict=True)) == expected


@given(shard_results(), st.integers(1, 12), st.integers(1, 8))
def test_what_is_not_cut_short_is_what_merging_whole_parts_gives(parts, k, asked):
    whole = merge([as_arrays(part) for part in parts], k)
    some = [(near[:, :asked], which[:, :asked]) for near, which in map(as_arrays, parts)]
    merged = merge(some, k)
    if not cut_short(some, merged, asked)[0]:
        assert all(map(np.array_equal, merged, whole))


def test_a_part_that_gave_all_it_has_is_not_cut_short():
    given_all = [as_arrays([(1, 0), (np.inf, -1)]), as_arrays([(5, 2), (np.inf, -1)])]
    assert not cut_short(given_all, merge(given_all, 3), 2)[0]
    may_have_more = [as_arrays([(1, 0), (2, 1)]), as_arrays([(5, 2), (np.inf, -1)])]
    assert cut_short(may_have_more, merge(may_have_more, 3), 2)[0]
    assert not cut_short(may_have_more, merge(may_have_more, 1), 2)[0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), min_size=1, max_size=40))
def test_tidying_sorts_by_distance_then_entry(pairs):
    distances, entries = as_arrays(pairs)
    tidy(distances, entries)
    assert list(zip(distances[0], entries[0], strict=True)) == sorted(pairs)


def test_what_faiss_found_becomes_entries_and_gaps():
    distances = np.array([[1, 1, 3.4e38]], np.float32)
    rows = np.array([[5, 2, -1]])
    assert settle(distances, rows, 100, 100, 106)
    assert rows.tolist() == [[102, 105, -1]]
    assert distances.tolist() == [[1, 1, np.inf]]


@given(st.integers(-3, 9))
def test_a_row_outside_the_shard_is_noticed(row):
    found = settle(np.zeros((1, 1), np.float32), np.array([[row]]), 100, 100, 106)
    assert found == (row < 6)
