"""A team keeps its members' state, however often their actors die."""

import contextlib
import os
import signal
from functools import partial

import pytest

from retomaton_dist.errors import BadInput, WorkerLost
from retomaton_dist.runtime import team as team_module
from retomaton_dist.runtime.actors import Actors
from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.team import Team

CREW = Crew(workers=2, cpus=0.5, gpus=0, threads=1)


class Counter:
    """Counts what it is told; can be told to die."""

    def __init__(self, start):
        self.value, self.before = start, None

    def add(self, amount):
        self.before, self.value = self.value, self.value + amount
        return self.value

    def get(self):
        return self.value, self.before

    def pid(self):
        return os.getpid()

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def refuse(self, text):
        raise BadInput(text)


class LastTwo:
    """Its state is its last two calls, as a k-means share's is."""

    def __init__(self):
        self.seen = []

    def see(self, item):
        self.seen = [*self.seen, item][-2:]
        return self.seen

    def pid(self):
        return os.getpid()


@pytest.fixture
def actors(ray_local):
    with contextlib.closing(Actors(CREW)) as made:
        yield made


@pytest.fixture
def counters(actors):
    with Team(actors, [partial(Counter, 10), partial(Counter, 20)], seconds=60, depth=9) as team:
        yield team


def test_calls_go_to_all_members_and_results_come_in_their_order(counters):
    assert counters.ask("add", 1, remember=True) == [11, 21]
    assert counters.ask_each("add", [(1,), (2,)]) == [12, 23]
    assert len(counters) == 2


def test_shared_arguments_arrive_as_their_values(counters):
    assert counters.ask("add", counters.share(5)) == [15, 25]


def test_a_lost_member_comes_back_with_the_state_that_its_calls_left(counters):
    counters.ask("add", 1, remember=True)
    counters.ask("add", 2, remember=True)
    os.kill(counters.ask("pid")[0], signal.SIGKILL)
    assert counters.ask("get") == [(13, 11), (23, 21)]


def test_a_member_lost_in_the_middle_of_a_call_does_the_call_again(actors):
    with Team(actors, [LastTwo, LastTwo], seconds=60, depth=2) as team:
        for item in range(4):
            team.ask("see", item, remember=True)
        os.kill(team.ask("pid")[1], signal.SIGKILL)
        assert team.ask("see", 4, remember=True) == [[3, 4], [3, 4]]


def test_a_call_that_always_kills_its_actor_ends_in_worker_lost(counters):
    with pytest.raises(WorkerLost, match="asked to die was lost 3 times"):
        counters.ask("die")


def test_a_member_whose_actor_has_no_successor_moves_to_another_with_its_state(
    ray_local, monkeypatch, capfd
):
    """What the lost actor leaves free goes to somebody else, as when a node is lost."""
    monkeypatch.setattr(team_module, "OPEN_SECONDS", 3.0)
    crew = Crew(workers=2, cpus=2, gpus=0, threads=1)
    makes = [partial(Counter, 10), partial(Counter, 20)]
    with (
        contextlib.closing(Actors(crew)) as actors,
        Team(actors, makes, seconds=60, depth=9) as team,
    ):
        team.ask("add", 1, remember=True)
        team.ask("add", 2, remember=True)
        first, second = team.ask("pid")
        rival = ray_local.remote(Counter).options(num_cpus=2).remote(0)
        os.kill(first, signal.SIGKILL)
        ray_local.get(rival.get.remote())
        assert team.ask("get") == [(13, 11), (23, 21)]
        assert team.ask("pid") == [second, second]
        assert team.ask_each("add", [(1,), (2,)]) == [14, 25]
        assert "1 go on with its work" in capfd.readouterr().err
        ray_local.kill(rival)


@pytest.mark.slow
def test_members_whose_actors_are_stopped_are_made_anew(actors):
    with Team(actors, [LastTwo, LastTwo], seconds=3, depth=2) as team:
        team.ask("see", 1, remember=True)
        for pid in team.ask("pid"):
            os.kill(pid, signal.SIGSTOP)
        assert team.ask("see", 2, remember=True) == [[1, 2], [1, 2]]


def test_a_members_error_arrives_as_itself(counters):
    with pytest.raises(BadInput, match="no such thing"):
        counters.ask("refuse", "no such thing")


def test_an_error_while_starting_arrives_as_itself(actors):
    def broken():
        raise BadInput("cannot start like this")

    with pytest.raises(BadInput, match="cannot start like this"):
        Team(actors, [broken], seconds=60, depth=1)
