"""The campaign itself: what it draws, what it counts, and a small one on a real cluster."""

import itertools
import os

import pytest

from retomaton_dist.storage import records
from retomaton_dist.storage.records import Record
from tests.chaos.campaign import Order, drawn, table
from tests.chaos.faults import kinds
from tests.chaos.ledger import Ledger
from tests.chaos.running import Ended
from tests.chaos.trial import Fault, Outcome, Verdict
from tests.conftest import run_python
from tests.stages.killing import wait_for

KINDS = list(kinds(real_disk=True).values())


def first(count, **order):
    return list(itertools.islice(drawn(Order(faults=count, **order), KINDS), count))


def test_the_same_seed_draws_the_same_faults_and_another_draws_others():
    assert first(50, seed=3) == first(50, seed=3)
    assert first(50, seed=3) != first(50, seed=4)


def test_every_kind_is_drawn_before_any_is_drawn_again():
    names = [fault.kind.name for fault in first(2 * len(KINDS), seed=3)]
    assert sorted(names[: len(KINDS)]) == sorted(names[len(KINDS) :]) == sorted(set(names))


def test_fifty_faults_strike_every_command():
    assert {fault.target for fault in first(50, seed=1)} == {
        target for kind in KINDS for target in kind.targets
    }


def test_kinds_and_targets_can_be_narrowed_down():
    found = first(9, seed=3, only=["actor killed", "disk full"], on=["suffix"])
    assert {fault.kind.name for fault in found} == {"actor killed", "disk full"}
    assert {fault.target for fault in found} == {"suffix"}


def test_a_record_that_is_written_again_is_repeated_work(tmp_path):
    with Ledger(tmp_path) as ledger:
        for unit in (0, 1, 1):
            records.write(tmp_path, "compile/kmeans", Record(unit, "", {}))
            path = records.folder(tmp_path, "compile/kmeans") / f"unit-{unit:05d}.json"
            seen = (path.stat().st_ino, path.stat().st_mtime_ns)
            wait_for(lambda found=(str(path), seen): ledger.has_seen(*found), "a look at it")
        assert ledger.repeated == 1


def test_what_a_command_says_in_the_end_is_told_from_its_progress():
    said = '{"stage": "kmeans", "done": 2}\nnote: slow\nretomaton cluster: error: no room\n'
    assert Ended(2, said).one_line
    assert not Ended(1, said + "Traceback\n").one_line
    assert Ended(2, said).iterations() == [2]


def verdict(kind, outcome, repeated=0):
    return Verdict(Fault(kind, "suffix", 0.0, 0), outcome, "", 0, "", 1.0, repeated, in_flight=2)


def test_the_table_adds_up_by_kind():
    killed, filled = KINDS[0], KINDS[-1]
    made = [
        verdict(killed, Outcome.SURVIVED, repeated=1),
        verdict(killed, Outcome.WRONG),
        verdict(filled, Outcome.REFUSED),
    ]
    *_, one, other, whole = table(made).splitlines()
    assert one == f"| {killed.name} | 2 | 1 | 0 | 1 | 0 | 1 | 4 |"
    assert other == f"| {filled.name} | 1 | 0 | 1 | 0 | 0 | 0 | 2 |"
    assert whole == "| in all | 3 | 1 | 1 | 1 | 0 | 1 | 6 |"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fault_is_survived():
    """That the campaign runs; `make chaos` has faults of every kind, on every command."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    chosen = ["--only", "actor killed", "--on", "extract"]
    done = run_python("-m", "tests.chaos", "--faults", 1, "--seed", 11, *chosen, env=outside)
    assert done.returncode == 0, done.stdout + done.stderr
