"""Units are worked off by real actors, some of which are killed, stuck or broken."""

import contextlib
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from ray.exceptions import GetTimeoutError, ObjectLostError, RayTaskError

from retomaton_dist.errors import ClusterError, ModelError, OutOfMemory, WorkerLost
from retomaton_dist.runtime import ray_pool as pool_module
from retomaton_dist.runtime.actors import ATTEMPTS, Actors
from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.ray_pool import IN_FLIGHT, RayPool
from retomaton_dist.runtime.threads import thread_environment
from tests.runtime import workers
from tests.runtime.workers import marks, pids

pytestmark = pytest.mark.usefixtures("ray_local")

PATIENCE = 60.0


def crew(count=2, cpus=0.5, threads=1):
    return Crew(workers=count, cpus=cpus, gpus=0.0, threads=threads)


@contextlib.contextmanager
def pool_of(make, size, seconds=PATIENCE, on_ready=lambda: None):
    """A pool with actors of its own, which end with the block as a session's would."""
    with (
        contextlib.closing(Actors(size)) as actors,
        RayPool(actors, make, seconds, on_ready) as pool,
    ):
        yield pool


def work_off(make, units, count=1, numbers=None, recorded=None, **options):
    with pool_of(make, crew(count), **options) as pool:
        return list(pool.run(units, numbers, recorded))


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


def done(seat):
    """Whether all that an actor was given is done; one that is starting was given nothing."""
    import ray

    given = [task.answer for task in seat.tasks]
    return not given or len(ray.wait(given, num_returns=len(given), timeout=0)[0]) == len(given)


def is_lost(reference):
    """Whether Ray knows that nobody can give this object any more."""
    import ray

    try:
        ray.get(reference, timeout=1)
    except ObjectLostError:
        return True
    except GetTimeoutError:
        return False
    return False


def none_alive(numbers):
    return not any(psutil.pid_exists(number) for number in numbers)


@pytest.fixture(scope="module")
def run_of_twenty(ray_local, tmp_path_factory):
    """What two workers made of units 0..19, the first of which takes longer than all others."""
    folder, ready = tmp_path_factory.mktemp("twenty"), []
    make = partial(workers.FirstUnitLast, folder)
    found = work_off(make, range(20), count=2, on_ready=lambda: ready.append(len(marks(folder))))
    return found, folder, ready


def test_every_unit_is_done_once_and_comes_with_its_result(run_of_twenty):
    found, folder, _ = run_of_twenty
    assert sorted(found) == [(unit, 2 * unit) for unit in range(20)]
    assert marks(folder) == list(range(20))


def test_results_come_as_they_finish_not_in_the_order_of_the_units(run_of_twenty):
    found, _, _ = run_of_twenty
    assert [unit for unit, _ in found].index(0) > 10


def test_the_first_worker_that_has_started_is_announced_before_any_unit(run_of_twenty):
    _, _, ready = run_of_twenty
    assert ready == [0]


def test_actors_end_with_their_session(run_of_twenty):
    _, folder, _ = run_of_twenty
    assert len(pids(folder)) == 2
    wait_for(lambda: none_alive(pids(folder)), "the actors' end")


def test_actors_stay_for_the_next_pool_and_do_other_work(tmp_path):
    folders = [tmp_path / name for name in ("first", "second")]
    with contextlib.closing(Actors(crew(1))) as actors:
        for folder in folders:
            folder.mkdir()
            with RayPool(actors, partial(workers.Doubler, folder), PATIENCE) as pool:
                assert sorted(pool.run(range(3))) == [(0, 0), (1, 2), (2, 4)]
    assert pids(folders[0]) == pids(folders[1])


def test_an_actor_lets_go_of_every_worker_that_it_had():
    with contextlib.closing(Actors(crew(1))) as actors:
        for _ in range(3):
            with RayPool(actors, workers.Circle, PATIENCE) as pool:
                assert list(pool.run(["how many?"])) == [("how many?", 1)]


def test_an_actor_that_died_between_two_pools_is_replaced(tmp_path):
    folders = [tmp_path / name for name in ("first", "second")]
    with contextlib.closing(Actors(crew(1))) as actors:
        for folder in folders:
            folder.mkdir()
            with RayPool(actors, partial(workers.Doubler, folder), PATIENCE) as pool:
                assert sorted(pool.run(range(3))) == [(0, 0), (1, 2), (2, 4)]
            os.kill(min(pids(folder)), signal.SIGKILL)
    assert pids(folders[0]).isdisjoint(pids(folders[1]))


def test_without_units_no_actor_is_started(tmp_path):
    assert work_off(partial(workers.DiesAtStart, tmp_path), []) == []


def test_no_more_actors_than_units_are_started_and_each_gets_one(tmp_path):
    work_off(partial(workers.Together, tmp_path, 2), range(2), count=4)
    assert len(pids(tmp_path)) == 2


def test_work_in_flight_is_bounded_and_ends_when_the_caller_stops_asking(tmp_path):
    with pool_of(partial(workers.Doubler, tmp_path), crew(2)) as pool:
        next(pool.run(range(50)))
        given = sum(len(seat.tasks) for seat in pool.seats)
        assert 0 < given <= 2 * IN_FLIGHT
        assert len(pool.waiting) >= 50 - 1 - 2 * IN_FLIGHT
    wait_for(lambda: none_alive(pids(tmp_path)), "the actors' end")


@pytest.mark.slow
def test_a_unit_whose_process_was_killed_is_done_again(tmp_path):
    found = work_off(partial(workers.KilledOnce, tmp_path, 3), range(8))
    assert sorted(found) == [(unit, 2 * unit) for unit in range(8)]
    assert marks(tmp_path).count(3) == 2
    assert set(marks(tmp_path)) == set(range(8))


def test_an_actor_killed_from_outside_is_replaced(tmp_path):
    def kill_first():
        wait_for(lambda: pids(tmp_path), "a process at work")
        os.kill(min(pids(tmp_path)), signal.SIGKILL)

    killer = threading.Thread(target=kill_first)
    killer.start()
    found = work_off(partial(workers.StuckOnce, tmp_path), range(4))
    killer.join()
    assert sorted(found) == [(unit, 2 * unit) for unit in range(4)]
    assert len(pids(tmp_path)) == 2


def test_a_result_that_is_lost_after_it_was_made_is_made_again(ray_local, tmp_path):
    """As when a node dies that holds an answer: Ray says that an object is lost, not an actor."""
    owner = ray_local.remote(workers.Owner).remote()
    (lost,) = ray_local.get(owner.put.remote())
    ray_local.kill(owner)
    wait_for(lambda: is_lost(lost), "Ray to notice that the owner is gone")
    with pool_of(partial(workers.Doubler, tmp_path), crew(1)) as pool:
        run = pool.run(range(4))
        found = [next(run)]
        (seat,) = pool.seats
        wait_for(lambda: done(seat), "the units in flight")
        seat.tasks[0] = seat.tasks[0]._replace(answer=lost)
        found += run
    assert sorted(found) == [(0, 0), (1, 2), (2, 4), (3, 6)]


def test_a_unit_that_kills_every_worker_is_named_after_three_attempts(tmp_path):
    with pytest.raises(WorkerLost, match=r"^unit 107 lost its worker 3 times.*--batch-tokens"):
        work_off(partial(workers.KilledAlways, tmp_path, 7), range(7, 12), numbers=range(107, 112))
    assert marks(tmp_path) == [7] * ATTEMPTS, "nothing behind it was tried, or blamed"


@pytest.mark.slow
def test_a_unit_whose_answer_dies_with_the_next_one_is_not_blamed_for_good(tmp_path):
    with pytest.raises(WorkerLost, match=r"^unit 1 lost"):
        work_off(partial(workers.KilledAlways, tmp_path, 1), range(5))


@pytest.mark.slow
def test_a_stuck_unit_is_taken_from_its_worker_and_done_again(tmp_path):
    found = work_off(partial(workers.StuckOnce, tmp_path), range(3), seconds=2.0)
    assert sorted(found) == [(0, 0), (1, 2), (2, 4)]
    assert len(pids(tmp_path)) == 2


def test_a_unit_that_is_always_stuck_ends_the_run(tmp_path):
    with pytest.raises(WorkerLost, match=r"unit 0 lost.*no answer within 1 s.*--unit-timeout"):
        work_off(partial(workers.StuckAlways, tmp_path), [0], seconds=1.0)
    assert marks(tmp_path) == [0] * ATTEMPTS
    wait_for(lambda: none_alive(pids(tmp_path)), "the stuck processes' end")


@pytest.mark.slow
def test_a_caller_that_takes_its_time_does_not_make_finished_units_look_stuck(tmp_path):
    found = []
    with pool_of(partial(workers.Doubler, tmp_path), crew(2), seconds=PATIENCE) as pool:
        for pair in pool.run(range(4)):
            for seat in pool.seats:
                # As if a unit had taken too long; what was given is done meanwhile.
                wait_for(lambda seat=seat: done(seat), "what was given")
                seat.since -= 2 * PATIENCE
            found.append(pair)
    assert sorted(found) == [(unit, 2 * unit) for unit in range(4)]
    assert marks(tmp_path) == list(range(4)), "no unit was done twice"


def test_others_do_the_work_of_an_actor_that_cannot_be_replaced(ray_local, tmp_path):
    """The cluster is full; what a dead actor leaves free goes to somebody else."""
    rival = None

    def make_rival():
        nonlocal rival
        wait_for(lambda: pids(tmp_path), "a process at work")
        rival = ray_local.remote(workers.Doubler).options(num_cpus=2).remote(tmp_path)

    thread = threading.Thread(target=make_rival)
    thread.start()
    make = partial(workers.KilledOnce, tmp_path, 0)
    try:
        with pool_of(make, crew(2, cpus=2)) as pool:
            found = list(pool.run(range(8)))
    finally:
        thread.join()
        # Killed while it is being made, it would be made all the same and keep its CPUs.
        ray_local.get(rival.run.remote(100), timeout=PATIENCE)
        ray_local.kill(rival)
    assert sorted(found) == [(unit, 2 * unit) for unit in range(8)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_unit_that_is_recorded_is_done_although_its_answer_never_arrives(
    tmp_path, monkeypatch, capfd, count
):
    """As behind a wall between this host and the worker's; whoever is behind it is replaced."""
    monkeypatch.setattr(pool_module, "RECORD_SECONDS", 0.2)
    monkeypatch.setattr(pool_module, "ANSWER_SECONDS", 1.0)

    def recorded(unit):
        return unit in marks(tmp_path)

    found = work_off(partial(workers.Unheard, tmp_path, 2), range(6), count, recorded=recorded)
    results = dict(found)
    assert sorted(results) == list(range(6))
    assert results[2] is None
    # Answers from before may still have been on their way when their worker fell silent.
    assert all(results[unit] == 2 * unit for unit in (3, 4, 5))
    assert marks(tmp_path) == list(range(6)), "no unit was done twice"
    assert "a worker does not answer" in capfd.readouterr().err


def test_an_error_of_the_system_arrives_as_itself(tmp_path):
    with pytest.raises(ModelError) as caught:
        work_off(partial(workers.Refusing, tmp_path), range(9))
    assert type(caught.value) is ModelError
    assert str(caught.value) == "unit 0 has a key that is NaN"
    assert marks(tmp_path).count(0) == 1, "what is wrong with the input is not tried again"
    wait_for(lambda: none_alive(pids(tmp_path)), "the actors' end")


def test_any_other_error_arrives_with_the_place_where_it_was_raised(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        work_off(partial(workers.Broken, tmp_path), range(2))
    assert isinstance(caught.value, RayTaskError)
    assert "divide_by_zero" in str(caught.value)


def test_a_memory_error_says_what_to_lower(tmp_path):
    with pytest.raises(OutOfMemory, match=r"1 TiB.*--workers"):
        work_off(partial(workers.Hungry, tmp_path), range(2))


def test_an_error_while_the_worker_is_made_arrives_as_itself(tmp_path):
    with pytest.raises(ModelError, match=r"^the model cannot be loaded$"):
        work_off(partial(workers.NeverMade, tmp_path), range(2))


@pytest.mark.slow
def test_workers_that_die_while_they_are_made_end_the_run(tmp_path):
    with pytest.raises(WorkerLost, match="starting a worker lost its worker 3 times"):
        work_off(partial(workers.DiesAtStart, tmp_path), range(2))


def test_a_seat_whose_workers_die_before_they_are_made_is_given_up_and_the_others_go_on(
    tmp_path, capfd
):
    make = partial(workers.OnlyOneLives, tmp_path)
    found = work_off(make, range(6), count=2)
    assert sorted(found) == [(unit, 2 * unit) for unit in range(6)]
    assert "a worker died 3 times while starting" in capfd.readouterr().err


@pytest.mark.slow
def test_a_worker_stopped_while_it_is_made_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "LEAST_MAKE_SECONDS", 3.0)
    found = work_off(partial(workers.StoppedAtFirst, tmp_path), range(3), seconds=3.0)
    assert sorted(found) == [(0, 0), (1, 2), (2, 4)]


def test_when_nobody_starts_for_long_the_run_ends_and_says_where_to_look(
    tmp_path, monkeypatch, ray_local
):
    monkeypatch.setattr(pool_module, "START_SECONDS", 2.0)
    rival = ray_local.remote(workers.Doubler).options(num_cpus=4).remote(tmp_path)
    ray_local.get(rival.run.remote(100), timeout=PATIENCE)
    try:
        with (
            pytest.raises(ClusterError, match=r"no worker started within 2 s.*ray status"),
            pool_of(partial(workers.Doubler, tmp_path), crew(2, cpus=2)) as pool,
        ):
            list(pool.run(range(4)))
    finally:
        ray_local.kill(rival)


def test_all_libraries_of_an_actor_use_as_many_threads_as_asked_for():
    """Three: neither what Ray would choose for half a CPU nor likely the number of cores."""
    threads = 3
    wanted = thread_environment(threads)
    with pool_of(workers.Threads, crew(1, threads=threads)) as pool:
        ((_, found),) = pool.run([list(wanted)])
    assert (found["torch"], found["numba"]) == (threads, threads)
    assert found["blas"] <= threads
    assert found["environment"] == wanted
    assert {"OMP_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS"} <= wanted.keys()


def test_marks_are_read_back(tmp_path):
    for unit in (2, 1, 2):
        workers.Doubler(Path(tmp_path)).run(unit)
    assert marks(tmp_path) == [1, 2, 2]
