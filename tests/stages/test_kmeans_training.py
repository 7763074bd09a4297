"""Training a k-means in units: right through any number of levels, and resumed unit by unit."""

import os
import signal
import threading
from functools import partial

import numpy as np
import psutil
import pytest

from retomaton_dist.clustering import recipe as recipes
from retomaton_dist.clustering.assign import find_among_all, finder
from retomaton_dist.clustering.draw import drawn, first_centroids
from retomaton_dist.clustering.lloyd import Stop, lloyd
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import Recipe
from retomaton_dist.errors import DamagedStore, StoreLocked
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.stages import kmeans_job
from retomaton_dist.stages.kmeans_job import TrainingJob, iteration_name, training_files
from retomaton_dist.stages.kmeans_training import train_centroids
from retomaton_dist.storage.files import fenced
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.store import Store
from tests.clustering.data import clouds, squared_distances
from tests.search.made import make_store
from tests.stages.killing import wait_for
from tests.storage.kill import in_child

CHUNK = 2048
UNIT = 700


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    """Several units of several chunks in every round."""
    monkeypatch.setattr(kmeans_job, "UNIT_ROWS", UNIT)
    monkeypatch.setattr(kmeans_job, "LEAST_RANGE_STATES", 1)


@pytest.fixture
def three_levels(monkeypatch):
    """Cells of about 16 states, which are found through cells themselves."""
    monkeypatch.setattr(recipes, "PLAIN_WORK", 0)
    monkeypatch.setattr(recipes, "PLAIN_STATES", 8)
    monkeypatch.setattr(recipes, "MANY_STATES", 100)
    monkeypatch.setattr(recipes, "CELL_STATES", 16)


@pytest.fixture
def large_units(monkeypatch):
    """Units that nobody waits for."""
    monkeypatch.setattr(kmeans_job, "UNIT_ROWS", 8000)


def stored(folder, keys):
    path = make_store(folder / "s.store", keys, [len(keys)], CHUNK)
    return GuardedReader(Store.open(path))


def train(reader, folder, states, *, two_level, iterations=5, rows=None, workers=0, show=None):
    recipe = Recipe(states, iterations, rows or reader.shape.entries, 1, two_level)
    files = training_files(folder, "config")
    with Session(WorkerSettings(workers=workers, cpus_per_worker=0.5)) as session:
        return train_centroids(
            session, reader, recipe, files, Blocking(), show or (lambda _: None), tolerance=-1
        )


def inertia(keys, trained):
    return finder(trained.centroids, trained.cells, Blocking())(keys).distances.sum()


def plain_inertia(keys, states, iterations=5):
    start = first_centroids(len(keys), keys.__getitem__, states, 1)
    done = lloyd(keys, start, Stop(iterations, -1), Blocking())
    return find_among_all(done.centroids, Blocking())(keys).distances.sum()


def test_without_cells_it_is_lloyds_algorithm_over_all_rows(tmp_path):
    keys, seen = clouds(6000, 20, 8), []
    trained = train(stored(tmp_path, keys), tmp_path / "t", 25, two_level=False, show=seen.append)
    start = first_centroids(len(keys), keys.__getitem__, 25, 1)
    expected = lloyd(keys, start, Stop(5, -1), Blocking())
    np.testing.assert_array_equal(trained.centroids, expected.centroids)
    assert seen[-1] == expected.history
    assert list(map(len, seen)) == [1, 2, 3, 4, 5]
    assert trained.cells is None


def test_iterations_that_see_some_rows_are_those_of_lloyds_algorithm_in_memory(tmp_path):
    keys, seen = clouds(30_000, 40, 8), []
    trained = train(stored(tmp_path, keys), tmp_path / "t", 30, two_level=False, show=seen.append)
    start = first_centroids(len(keys), keys.__getitem__, 30, 1)
    expected = lloyd(keys, start, Stop(5, -1), Blocking())
    assert len({iteration.seen for iteration in expected.history}) == 5
    np.testing.assert_array_equal(trained.centroids, expected.centroids)
    assert seen[-1] == expected.history


def test_rows_that_are_drawn_are_the_only_ones_that_count(tmp_path):
    keys = clouds(6000, 20, 8)
    trained = train(stored(tmp_path, keys), tmp_path / "t", 1, two_level=False, rows=500)
    chosen = np.sort(drawn(6000, 500, 1))
    mean = keys[chosen].astype(np.float64).mean(axis=0)
    np.testing.assert_array_equal(trained.centroids[0], mean.astype(np.float32))


@pytest.mark.parametrize("rows", [None, 1900])
def test_rows_lie_in_the_order_of_their_nearest_cells_with_the_cells_that_they_see(tmp_path, rows):
    keys = clouds(6000, 20, 8)
    reader = stored(tmp_path, keys)
    trained = train(reader, tmp_path / "t", 100, two_level=True, iterations=1, rows=rows)
    files = training_files(tmp_path / "t", "config")
    count = rows or 6000
    job = TrainingJob(reader, Recipe(100, 1, count, 1, True), files, None, Blocking())
    chosen = np.sort(drawn(6000, count, 1))
    apart = squared_distances(keys[chosen], trained.cells.centres)
    near = np.argsort(apart, axis=1, kind="stable")[:, : recipes.PROBES]
    order = np.argsort(near[:, 0], kind="stable")
    np.testing.assert_array_equal(job.row_keys(0, count), keys[chosen[order]])
    np.testing.assert_array_equal(job.row_cells[:count], near[order])
    sizes = np.bincount(near[:, 0], minlength=len(trained.cells.centres))
    np.testing.assert_array_equal(np.diff(job.row_offsets), sizes)
    seen = files.seen_cells(6000)
    assert seen.path.exists() == (rows is None), "kept for the assignment of all entries"
    if rows is None:
        np.testing.assert_array_equal(seen.map(), near)


@pytest.mark.usefixtures("large_units")
@pytest.mark.parametrize(("centres", "width"), [(100, 0.5), (2000, 0.3), (1, 1.0)])
def test_inertia_is_within_three_per_cent_of_plain_k_means(tmp_path, centres, width):
    keys = clouds(20000, centres, 32, width=width)
    trained = train(stored(tmp_path, keys), tmp_path / "t", 400, two_level=True, iterations=8)
    assert inertia(keys, trained) <= 1.03 * plain_inertia(keys, 400, 8)
    assert trained.cells.levels == 2


@pytest.mark.usefixtures("three_levels", "large_units")
def test_through_three_levels_it_is_still_close(tmp_path):
    keys = clouds(20000, 300, 16)
    trained = train(stored(tmp_path, keys), tmp_path / "t", 400, two_level=True, iterations=8)
    assert trained.cells.levels == 3
    assert inertia(keys, trained) <= 1.05 * plain_inertia(keys, 400, 8)


@pytest.mark.usefixtures("large_units")
def test_equal_keys_do_not_claim_states_by_their_mass(tmp_path):
    keys = clouds(20000, 200, 16)
    keys[:10000] = keys[0]
    trained = train(stored(tmp_path, keys), tmp_path / "t", 200, two_level=True, iterations=8)
    found = finder(trained.centroids, trained.cells, Blocking())(keys)
    assert np.count_nonzero(np.bincount(found.states, minlength=200) == 0) <= 4
    assert found.distances.sum() <= 1.05 * plain_inertia(keys, 200, 8)


def test_identical_keys_are_one_state(tmp_path):
    keys = np.tile(np.float16([0.5, -2, 0]), (2000, 1))
    trained = train(stored(tmp_path, keys), tmp_path / "t", 50, two_level=True)
    found = finder(trained.centroids, trained.cells, Blocking())(keys)
    assert not found.distances.any()
    assert len(set(found.states)) == 1
    assert trained.centroids.shape == (50, 3)


def log_units(log):
    """Have this process note every record that it moves into place."""
    original = os.replace

    def noted(source, target, **options):
        original(source, target, **options)
        if "unit-" in str(target):
            with log.open("a") as file:
                file.write(f"{target}\n")

    os.replace = noted


def killed_at(reader, folder, log, fatal):
    """Train, and die instead of doing the unit after the `fatal`-th."""
    log_units(log)
    original = os.replace

    def deadly(source, target, **options):
        if "unit-" in str(target) and len(log.read_text().splitlines()) >= fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        original(source, target, **options)

    log.touch()
    os.replace = deadly
    train(reader, folder, 100, two_level=True, iterations=3)


def resumed(reader, folder, log):
    log_units(log)
    train(reader, folder, 100, two_level=True, iterations=3)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_driver_killed_under_way_costs_the_unit_in_flight(tmp_path, share):
    reader = stored(tmp_path, clouds(6000, 20, 8))
    log, again = tmp_path / "log", tmp_path / "again"
    assert in_child(partial(resumed, reader, tmp_path / "whole", log)) == 0
    whole = log.read_text().splitlines()
    assert len(set(whole)) == len(whole) > 40
    fatal = int(share * len(whole))
    log.unlink()
    killed = partial(killed_at, reader, tmp_path / "killed", log, fatal)
    assert in_child(killed) == -signal.SIGKILL
    assert in_child(partial(resumed, reader, tmp_path / "killed", again)) == 0
    assert len(log.read_text().splitlines()) == fatal
    assert len(again.read_text().splitlines()) == len(whole) - fatal
    for name in ("whole", "killed"):
        train(reader, tmp_path / name, 100, two_level=True, iterations=3)
    files = [training_files(tmp_path / name, "config") for name in ("whole", "killed")]
    assert files[0].load() == files[1].load()


def test_centroids_that_were_altered_while_nobody_looked_are_refused(tmp_path):
    reader = stored(tmp_path, clouds(6000, 20, 8))
    train(reader, tmp_path / "t", 25, two_level=False, iterations=2)
    files = training_files(tmp_path / "t", "config")
    path = files.centroids(2, 25, 8).path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for iterations in (2, 3):
        with pytest.raises(DamagedStore, match=r"centroids: its contents were altered; delete"):
            train(reader, tmp_path / "t", 25, two_level=False, iterations=iterations)


def test_only_two_iterations_are_on_disk(tmp_path):
    reader = stored(tmp_path, clouds(6000, 20, 8))
    train(reader, tmp_path / "t", 100, two_level=True, iterations=5)
    files = training_files(tmp_path / "t", "config")
    found = sorted(path.name for path in files.work.glob("iteration-*"))
    assert found == [iteration_name(4), iteration_name(5)]


def kill_an_actor(folder):
    """SIGKILL a worker as soon as the second iteration has begun."""
    wait_for(lambda: list(folder.glob(f"{iteration_name(1)}/assigned/unit-*")), "a unit")
    actors = [
        process
        for process in psutil.Process().children(recursive=True)
        if process.name().startswith("ray::Host")
    ]
    for process in actors[:1]:
        process.kill()


def refuse_others(process):
    """A fence that stops every process but one."""
    if os.getpid() != process:
        raise StoreLocked("the run was replaced")


def test_workers_of_a_training_write_behind_the_fence_of_their_run(ray_local, tmp_path):
    reader = stored(tmp_path, clouds(4000, 20, 8))
    fence = partial(refuse_others, os.getpid())
    with fenced(fence), pytest.raises(StoreLocked, match="the run was replaced"):
        train(reader, tmp_path / "t", 25, two_level=False, workers=1)
    assert not list((tmp_path / "t").rglob("unit-*"))


@pytest.mark.slow
def test_a_worker_lost_in_an_iteration_leaves_no_trace(ray_local, tmp_path):
    reader = stored(tmp_path, clouds(40_000, 20, 8))
    train(reader, tmp_path / "here", 100, two_level=True)
    files = training_files(tmp_path / "there", "config")
    killer = threading.Thread(target=kill_an_actor, args=(files.work,))
    killer.start()
    train(reader, tmp_path / "there", 100, two_level=True, workers=2)
    killer.join()
    assert training_files(tmp_path / "here", "config").load() == files.load()


@pytest.mark.slow
@pytest.mark.usefixtures("three_levels")
def test_no_bit_depends_on_the_number_of_workers(ray_local, tmp_path):
    reader = stored(tmp_path, clouds(4000, 20, 8))
    here = train(reader, tmp_path / "here", 150, two_level=True, rows=3500)
    there = train(reader, tmp_path / "there", 150, two_level=True, rows=3500, workers=3)
    assert here.cells.levels == there.cells.levels == 3
    np.testing.assert_array_equal(here.centroids, there.centroids)
    states = [training_files(tmp_path / name, "config").load() for name in ("here", "there")]
    assert states[0] == states[1]
