"""A clustering on disk: parts joined in order, and what stands for each state."""

import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.storage import states
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import digest_of
from retomaton_dist.storage.states import States
from retomaton_dist.storage.store import Store
from tests.conftest import contents
from tests.storage import make

COUNT = 7
NUMBERS = (np.arange(5000) % COUNT).astype(np.uint32)


@pytest.fixture
def opened(sample):
    return Store.open(sample).datastore()


@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=5))
@settings(max_examples=15)
def test_parts_join_to_the_state_of_every_entry(tmp_path_factory, lengths):
    store = tmp_path_factory.mktemp("states")
    whole = np.arange(sum(lengths), dtype=np.uint32)[::-1].copy()
    for unit, part in enumerate(np.split(whole, np.cumsum(lengths)[:-1])):
        states.write_part(store, "a", unit, part)
    joined = states.merge_parts(store, "a", len(lengths))
    shutil.rmtree(states.parts_of(store, "a"))
    assert list(contents(store)) == list(joined) == ["states/a/state_of_entry.arrow"]
    at_once = make.write_states(store, "b", whole)
    assert list(at_once.values()) == list(joined.values())


def test_what_is_written_is_named_with_its_digest(tmp_path):
    written = states.write_column(tmp_path, "a", "sizes", np.arange(3))
    written |= states.write_part(tmp_path, "a", 4, NUMBERS)
    assert written == {name: digest_of(tmp_path / name) for name in contents(tmp_path)}


def test_neighbours_are_read_as_they_were_written(tmp_path):
    near = np.array([[3, 1], [-1, -1], [0, 2]])
    states.write_neighbours(tmp_path, "a", 0, near)
    np.testing.assert_array_equal(states.read_neighbours(tmp_path, "a", 0, 2), near)
    with pytest.raises(DamagedStore, match="lacks column near2"):
        states.read_neighbours(tmp_path, "a", 0, 3)


def test_a_kmeans_clustering_has_centroids_of_its_own(tmp_path, opened):
    centroids = np.arange(COUNT * make.DIMENSION, dtype=np.float32)
    make.write_states(tmp_path, "a", NUMBERS)
    states.write_column(tmp_path, "a", "sizes", np.bincount(NUMBERS))
    states.write_column(tmp_path, "a", "centroids", centroids)
    found = States(states.folder_of(tmp_path, "a"), "kmeans", COUNT, opened)
    np.testing.assert_array_equal(found.state_of_entry, NUMBERS)
    np.testing.assert_array_equal(found.sizes, np.bincount(NUMBERS))
    np.testing.assert_array_equal(found.centroids, centroids.reshape(COUNT, make.DIMENSION))


def test_the_states_of_a_greedy_clustering_are_stood_for_by_members(tmp_path, opened):
    chosen = np.array([3, 4999, 0, 1, 2, 5, 6])
    states.write_column(tmp_path, "a", "representatives", chosen)
    found = States(states.folder_of(tmp_path, "a"), "greedy", COUNT, opened)
    np.testing.assert_array_equal(found.centroids, make.keys_of(5000)[chosen])


def test_without_clusters_every_entry_is_its_own_state(tmp_path, opened):
    found = States(states.folder_of(tmp_path, "none"), "none", 5000, opened)
    np.testing.assert_array_equal(found.state_of_entry, np.arange(5000))
    np.testing.assert_array_equal(found.sizes, np.ones(5000))
    np.testing.assert_array_equal(found.centroids, make.keys_of(5000))


def test_columns_of_another_length_are_damage(tmp_path, opened):
    make.write_states(tmp_path, "a", NUMBERS[:-1])
    states.write_column(tmp_path, "a", "sizes", np.arange(COUNT + 1))
    states.write_column(tmp_path, "a", "centroids", np.zeros(3, np.float32))
    found = States(states.folder_of(tmp_path, "a"), "kmeans", COUNT, opened)
    for name in ("state_of_entry", "sizes", "centroids"):
        with pytest.raises(DamagedStore, match=f"{name}.arrow has .* numbers instead of"):
            getattr(found, name)
