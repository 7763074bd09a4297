"""Greedy merging against the published pseudo-code, and neighbours against all distances."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.clustering.greedy import exact_neighbours, merge, numbered, visits
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.errors import DamagedStore
from retomaton_dist.storage.scratch import mapped_zeros
from tests.clustering.data import clouds, grids, squared_distances


def made(count, k, vocabulary, seed):
    chosen = np.random.default_rng(seed)
    return chosen.integers(-1, count, (count, k)), chosen.integers(0, vocabulary, count, np.int32)


CASES = st.builds(
    made, st.integers(1, 80), st.integers(0, 6), st.integers(1, 3), st.integers(0, 10**6)
)
BLOCKS = st.integers(1, 100)


def by_weights(neighbours, values, order):
    """He et al. 2021: weights alone, and what they forgot: who absorbed whom."""
    weights = np.ones(len(values), int)
    absorber = np.arange(len(values))
    for entry in order:
        if weights[entry] > 0:
            for near in neighbours[entry]:
                if near not in (-1, entry) and weights[near] == 1 and values[near] == values[entry]:
                    weights[near] = 0
                    weights[entry] += 1
                    absorber[near] = entry
    return absorber, weights


@given(CASES, st.integers(0, 99), BLOCKS)
def test_entries_are_merged_as_published(case, seed, block):
    neighbours, values = case
    found = merge(neighbours.__getitem__, values, seed, block)
    order = np.concatenate([part.start + order for part, order in visits(len(values), seed, block)])
    absorber, weights = by_weights(neighbours, values, order)
    np.testing.assert_array_equal(found, absorber)
    np.testing.assert_array_equal(np.bincount(found, minlength=len(values)), weights)


@given(CASES, st.integers(0, 99), BLOCKS)
def test_a_state_has_one_value_and_its_members_are_one_hop_away(case, seed, block):
    neighbours, values = case
    found = merge(neighbours.__getitem__, values, seed, block)
    np.testing.assert_array_equal(found[found], found)
    np.testing.assert_array_equal(values[found], values)
    for entry in np.flatnonzero(found != np.arange(len(found))):
        assert entry in neighbours[found[entry]]


def listed(merged, block=1 << 16):
    """State of each entry and representative of each state."""
    found = numbered(merged, block)
    states, representatives = np.concatenate([*found.states()]), [*found.representatives()]
    assert found.count == len(np.concatenate(representatives))
    return states, np.concatenate(representatives)


@given(CASES, BLOCKS)
def test_states_are_numbered_by_representative(case, block):
    neighbours, values = case
    found = merge(neighbours.__getitem__, values, 0)
    states, representatives = listed(found, block)
    np.testing.assert_array_equal(representatives[states], found)
    np.testing.assert_array_equal(representatives, np.unique(found))


@given(st.integers(0, 300), st.integers(0, 99), BLOCKS)
def test_every_entry_is_visited_once(entries, seed, block):
    visited = [part.start + order for part, order in visits(entries, seed, block)]
    assert sorted(np.concatenate([np.empty(0, int), *visited])) == list(range(entries))


def test_the_seed_decides_who_absorbs_whom():
    neighbours, values = np.array([[1], [0]]), np.zeros(2, np.int32)
    found = {tuple(merge(neighbours.__getitem__, values, seed)) for seed in range(20)}
    assert found == {(0, 0), (1, 1)}


@pytest.mark.parametrize("wrong", [3, -2, 2**40])
def test_a_neighbour_that_is_no_entry_is_damage(wrong):
    neighbours = np.array([[1], [wrong], [0]])
    with pytest.raises(DamagedStore, match="neighbour of entry 1"):
        merge(neighbours.__getitem__, np.arange(3, dtype=np.int32), 0)


@given(grids((1, 60), high=1), st.integers(1, 12), st.integers(1, 30))
def test_neighbours_are_the_nearest_others_and_equal_keys_stay_together(keys, k, rows):
    blocking = Blocking(rows=rows, states=rows)
    found = exact_neighbours(keys, k, blocking)(slice(0, len(keys)))
    apart = squared_distances(keys, keys)
    first = (keys[:, None] == keys[None]).all(axis=2).argmax(axis=1)
    for entry in range(len(keys)):
        others = [other for other in range(len(keys)) if other != entry]
        order = sorted(others, key=lambda other: (apart[entry, other], first[other], other))[:k]
        assert found[entry].tolist() == order + [-1] * (k - len(order))


def test_neighbours_of_a_part_are_those_of_the_whole():
    keys = clouds(500, 9, 32)
    keys[::5] = keys[0]
    find = exact_neighbours(keys, 10, Blocking())
    assert np.array_equal(find(slice(123, 321)), find(slice(0, 500))[123:321])


def test_merging_repeated_text_halves_the_states():
    text = clouds(300, 300, 16)
    keys, values = np.concatenate([text, text]), np.tile(np.arange(300, dtype=np.int32), 2)
    states, representatives = listed(merge(exact_neighbours(keys, 1, Blocking()), values, 0))
    assert len(representatives) == 300
    assert np.array_equal(states[:300], states[300:])


def test_merging_holds_a_block_in_memory_however_many_entries_there_are(tmp_path):
    entries, block = 1 << 21, 1 << 13
    values = np.zeros(entries, np.int32)
    room = partial(mapped_zeros, tmp_path)

    def next_two(part):
        return np.stack([np.arange(part.start, part.stop) + step for step in (1, 2)], 1) % entries

    merge(lambda part: next_two(part)[:, :1], values[:block], 0, block)
    tracemalloc.start()
    found = numbered(merge(next_two, values, 7, block, room), block, room)
    count = sum(map(len, found.states()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == entries
    assert peak < entries, "bytes"
    assert np.array_equal(found.merged, merge(next_two, values, 7, block))
