"""Killed at any moment and run again, a build does only what is missing and ends the same."""

import random

import pytest

import retomaton_dist as rd
from retomaton_dist.storage import lock, records
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.conftest import contents
from tests.stages.killing import Running, traces

SMALL_UNIT = {"unit_bytes": 300}

# Many starts of a driver, each with a Ray of its own, on a machine that may be busy.
pytestmark = pytest.mark.timeout(900)


def flags_of(settings):
    return [
        part
        for name, value in settings.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]


def after_the_kill(store, stage):
    """What must hold at once; returns the files that no later run may touch."""
    assert lock.owner(store) is None, "the lock is free"
    Store.open(store)
    found = traces(store, stage)
    assert found, "something was done before the kill"
    return found


def finish(command, store, settings):
    code, _, err = Running.start(command, store, flags_of(settings)).finish()
    assert code == 0, err
    return err


def untouched(before):
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in before} == before


def assert_same(store, expected):
    opened = Store.open(store)
    assert verify(opened).findings == []
    assert verify(opened).leftovers == []
    assert contents(store) == contents(expected)


@pytest.mark.slow
def test_an_actor_and_then_the_driver_are_killed_while_keys_are_extracted(small_store, tmp_path):
    store = tmp_path / "killed.store"
    running = Running.start("extract", store, [*small_store.flags(), "--workers", "1"])
    running.wait_for_units("extract", 2)
    running.kill_actors()
    running.wait_for_units("extract", 5)
    running.kill()
    before = after_the_kill(store, "extract")
    assert (
        len(records.finished(store, "extract")) < Store.open(store).manifest.stages["extract"].units
    )
    finish("extract", store, small_store.settings)
    assert untouched(before)
    assert_same(store, small_store.path)


@pytest.mark.slow
def test_driver_and_actors_are_killed_at_random_moments_again_and_again(small_store, tmp_path):
    store, chosen = tmp_path / "killed.store", random.Random(0)
    settings = {**small_store.settings, "workers": 2}
    before, done = {}, 0
    for _ in range(2):
        running = Running.start("extract", store, flags_of(settings))
        done += chosen.randint(1, 3)
        running.wait_for_units("extract", done)
        running.kill(with_actors=chosen.random() < 0.5)
        assert untouched(before)
        before = after_the_kill(store, "extract")
        done = len(records.finished(store, "extract"))
    finish("extract", store, settings)
    assert untouched(before)
    assert_same(store, small_store.path)


@pytest.mark.slow
def test_a_driver_killed_while_it_tokenizes_goes_on_where_it_was(ray_local, small_store, tmp_path):
    wanted = ("corpus", "split", "model", "progress")
    settings = {name: small_store.settings[name] for name in wanted} | SMALL_UNIT | {"workers": 1}
    rd.tokenize(tmp_path / "undisturbed.store", **settings)
    store = tmp_path / "killed.store"
    running = Running.start("tokenize", store, flags_of(settings))
    running.wait_for_units("tokenize", 3)
    running.kill_actors()
    running.wait_for_units("tokenize", 20)
    running.kill()
    before = after_the_kill(store, "tokenize")
    again = Running.start("tokenize", store, flags_of(settings))
    again.wait_for_units("tokenize", len(records.finished(store, "tokenize")) + 10)
    assert untouched(before)
    again.kill(with_actors=True)
    finish("tokenize", store, settings)
    assert_same(store, tmp_path / "undisturbed.store")


@pytest.mark.slow
def test_a_killed_actor_leaves_no_noise_among_progress_and_results(small_store, tmp_path):
    store = tmp_path / "killed.store"
    settings = {**small_store.settings, "workers": 1, "progress": "json"}
    running = Running.start("extract", store, flags_of(settings))
    running.wait_for_units("extract", 2)
    running.kill_actors()
    code, out, err = running.finish()
    assert code == 0
    assert out.startswith(f"{store}\n")
    assert "raylet" not in out
    assert all(line.startswith("{") for line in err.splitlines()), err
    assert_same(store, small_store.path)
