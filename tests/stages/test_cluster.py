"""Clustering a store: the same states whoever computes them, however often they are killed."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.clustering import recipe
from retomaton_dist.errors import BadInput, ConfigMismatch, DamagedStore, StageMissing
from retomaton_dist.settings import ClusterSettings
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.conftest import ROOT

QUIET = {"progress": "none", "workers": 0}
STATES = 30


@pytest.fixture
def store(small_store, tmp_path):
    """A store of one's own."""
    return small_store.copy(tmp_path).path


@pytest.fixture(scope="module")
def clustered(small_store, tmp_path_factory):
    """A store with the clustering `kmeans`. Not to be altered."""
    path = small_store.copy(tmp_path_factory.mktemp("clustered")).path
    rd.cluster(path, states=STATES, **QUIET)
    return path


def same_states(left, right):
    return np.array_equal(left.centroids, right.centroids) and np.array_equal(
        left.state_of_entry, right.state_of_entry
    )


def test_every_entry_is_in_the_state_of_its_nearest_centroid(clustered):
    reader = rd.open(clustered)
    states, keys = reader.states(), reader.rows(np.arange(reader.entries)).astype(np.float64)
    distances = ((keys[:, None, :] - states.centroids[None].astype(np.float64)) ** 2).sum(axis=2)
    assert states.centroids.shape == (STATES, keys.shape[1])
    assert np.array_equal(states.state_of_entry, distances.argmin(axis=1))
    assert np.array_equal(states.sizes, np.bincount(states.state_of_entry, minlength=STATES))
    facts = Store.open(clustered).stage("cluster/kmeans").facts
    assert facts["inertia"] == pytest.approx(distances.min(axis=1).sum(), rel=1e-5)
    assert facts["mean_distance"] == pytest.approx(np.sqrt(distances.min(axis=1)).mean(), rel=1e-5)


def test_the_number_of_states_is_found_out(small_store):
    shape = Store.open(small_store.path).shape()
    assert recipe.resolve(ClusterSettings(), shape).states == shape.entries // 100


def test_all_entries_are_learnt_from_where_that_is_quick():
    few, many = Shape(325_000, 64, 2048), Shape(10**9, 1024, 2048)
    assert recipe.resolve(ClusterSettings(states=256), few).rows == 325_000
    assert recipe.resolve(ClusterSettings(states=256), many).rows == 256 * 256
    assert recipe.resolve(ClusterSettings(states=256, sample=9999), few).rows == 9999


@pytest.mark.slow
def test_states_of_the_two_level_path_do_not_depend_on_workers(ray_local, store, monkeypatch):
    monkeypatch.setattr(recipe, "PLAIN_WORK", 0)
    monkeypatch.setattr(recipe, "PLAIN_STATES", 0)
    one, three = (
        rd.cluster(store, name=f"w{workers}", states=40, progress="none", workers=workers).states(
            f"w{workers}"
        )
        for workers in (1, 3)
    )
    assert same_states(one, three)
    assert Store.open(store).stage("cluster/w1").facts["path"] == "two-level"


def test_a_sample_is_enough_to_learn_from(store):
    states = rd.cluster(store, states=20, sample=500, **QUIET).states()
    assert states.sizes.sum() == rd.open(store).entries


def run_killed_when(store, ready, *flags):
    """Run `retomaton cluster` and SIGKILL all of it as soon as `ready` says so."""
    line = [sys.executable, "-m", "retomaton_dist.cli", "cluster", store, *flags]
    process = subprocess.Popen(list(map(str, line)), cwd=ROOT, start_new_session=True)
    deadline = time.monotonic() + 120
    while process.poll() is None and not ready() and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was_and_ends_with_the_same_states(clustered, store):
    flags = ("--states", STATES, "--workers", 2, "--progress", "none")
    checkpoint = store / "states" / "kmeans" / "checkpoint.arrow"
    code = run_killed_when(store, checkpoint.exists, *flags)
    assert code == -signal.SIGKILL
    assert checkpoint.exists()
    assert Store.open(store).manifest.stages["cluster/kmeans"].status == "running"
    states = rd.cluster(store, states=STATES, **QUIET).states()
    assert same_states(states, rd.open(clustered).states())
    assert not checkpoint.exists()


def test_what_is_done_is_not_done_again(clustered):
    path = clustered / "states" / "kmeans" / "state_of_entry.arrow"
    before = path.stat()
    rd.cluster(clustered, states=STATES, **QUIET)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_greedy_states_hold_one_value_and_their_representative(store):
    reader = rd.cluster(store, algorithm="greedy", neighbours=5, **QUIET)
    states, values = reader.states("greedy"), reader.values.compute()
    keys = reader.rows(np.arange(reader.entries))
    assert 1 < states.count < reader.entries
    for state in range(states.count):
        members = np.flatnonzero(states.state_of_entry == state)
        assert len(set(values[members])) == 1
        assert any(np.array_equal(keys[member], states.centroids[state]) for member in members)


def test_without_clusters_every_entry_is_its_own_state_and_nothing_is_stored(store):
    reader = rd.cluster(store, algorithm="none", **QUIET)
    states = reader.states("none")
    assert not (store / "states").exists()
    assert np.array_equal(states.state_of_entry, np.arange(reader.entries))
    assert np.array_equal(states.centroids, reader.rows(np.arange(reader.entries)))


def test_several_clusterings_live_side_by_side(clustered, tmp_path):
    store = shutil.copytree(clustered, tmp_path / "two.store")
    rd.cluster(store, algorithm="none", **QUIET)
    assert Store.open(store).finished("cluster") == ["kmeans", "none"]


@pytest.mark.parametrize("name", ["centroids", "sizes", "state_of_entry"])
def test_verify_finds_a_flipped_bit_in_every_file_of_a_clustering(clustered, tmp_path, name):
    store = shutil.copytree(clustered, tmp_path / "damaged.store")
    assert verify(Store.open(store)).findings == []
    path = store / "states" / "kmeans" / f"{name}.arrow"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = verify(Store.open(store)).findings
    assert [finding.path for finding in found] == [f"states/kmeans/{name}.arrow"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"states": 0}, "--states 0: at least 1 is needed"),
        ({"states": 10**9}, "choose from 1 to the number of entries"),
        ({"iterations": 0}, "--iterations 0"),
        ({"states": 50, "sample": 10}, "fewer entries than the 50 states"),
        ({"name": "../elsewhere"}, "--name ../elsewhere"),
        ({"algorithm": "greedy", "neighbours": 0}, "--neighbours 0"),
        ({"algorithm": "magic"}, "choose one of kmeans, greedy, none"),
    ],
)
def test_settings_that_cannot_be_are_refused(store, settings, message):
    with pytest.raises(BadInput, match=message):
        rd.cluster(store, **settings, **QUIET)
    assert Store.open(store).finished("cluster") == []


def test_a_name_that_exists_with_other_settings_is_refused(clustered):
    with pytest.raises(ConfigMismatch, match="states was 30, now 31"):
        rd.cluster(clustered, states=31, **QUIET)


def test_a_store_whose_extraction_is_not_finished_is_refused(tiny_model, small_corpus, tmp_path):
    path = tmp_path / "half.store"
    rd.tokenize(path, corpus=str(small_corpus), split="line", model=str(tiny_model), **QUIET)
    with pytest.raises(StageMissing, match="retomaton extract"):
        rd.cluster(path, **QUIET)


def test_damaged_keys_are_found_before_they_become_states(store):
    path = store / "datastore.zarr" / "keys" / "c" / "1" / "0"
    data = bytearray(path.read_bytes())
    data[1234] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStore, match=r"keys/c/1/0: its contents were altered.*--repair"):
        rd.cluster(store, **QUIET)


def test_inspect_shows_every_clustering_and_draws_its_sizes(clustered, command, tmp_path):
    shown = command("inspect", clustered, "--histograms", tmp_path / "figures")
    assert "kmeans: 30 states of" in shown.stdout
    assert "members    min" in shown.stdout
    assert "####" in shown.stdout
    assert (tmp_path / "figures" / "kmeans.png").read_bytes().startswith(b"\x89PNG")
