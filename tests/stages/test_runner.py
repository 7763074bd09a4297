"""What a stage is: begun, gone on with, finished and cleaned up in one way, whatever it makes."""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pytest

from retomaton_dist.dry_run.rates import MEASURED
from retomaton_dist.errors import (
    ClusterError,
    ConfigMismatch,
    DamagedStore,
    ModelError,
    StoreLocked,
)
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import BuildSettings, WorkerSettings
from retomaton_dist.settings.stages import DeclaredStage
from retomaton_dist.stages.cost import Work
from retomaton_dist.stages.runner import Done, Plan, Recorder, run_stage, ticket_for
from retomaton_dist.stages.stage import Running
from retomaton_dist.storage import columns, files, records
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import repair, verify
from tests.conftest import ROOT, contents

HERE = WorkerSettings(workers=0, progress="none")


class Writer:
    """Writes its payload, doubled, and tells which process did; refuses what is negative."""

    def __init__(self, store, seen):
        self._store, self._seen = store, seen

    def run(self, number, payload):
        if payload < 0:
            raise ModelError(f"unit {number} is negative")
        with (self._seen / "order").open("a") as file:
            file.write(f"{number} ")
        path = f"made/parts/{number}"
        digest = files.write(self._store / path, str(2 * payload).encode())
        return Done({path: digest}, {"value": 2 * payload, "pid": os.getpid()}, {"sum": payload})


@dataclass(frozen=True)
class Made(Plan[int]):
    """A stage that adds up numbers, in two rounds: odd units first."""

    store: Path
    seen: Path
    units: tuple[int, ...] = ()
    name: str = "made"
    settings: dict = field(default_factory=dict)
    asked: str = "anything"

    merges = True
    undone_by = (ModelError,)

    @property
    def config(self):
        return {"units": list(self.units), **self.settings}

    @cached_property
    def work(self):
        return [1.0] * len(self.units)

    @property
    def rounds(self):
        return [range(1, len(self.units), 2), range(0, len(self.units), 2)]

    def worker(self):
        return partial(Writer, self.store, self.seen)

    def prepare(self):
        with (self.seen / "prepared").open("a") as file:
            file.write("x")

    def finish(self, units):
        total = sum(unit.facts["value"] for unit in units)
        pids = sorted({unit.facts["pid"] for unit in units})
        digest = files.write(self.store / "made/total", str(total).encode())
        return Done({"made/total": digest}, {"total": total, "pids": pids, "asked": self.asked})

    def up_to_date(self, stage):
        return stage.facts["asked"] == self.asked

    def scratch(self):
        return (self.store / "made/parts", self.store / "made/note")


class Unmerged(Made):
    """The same, but what units wrote stays as it is."""

    merges = False

    def scratch(self):
        return ()


def unmerged(plan):
    return Unmerged(plan.store, plan.seen, plan.units)


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "seen").mkdir()
    return Made(tmp_path / "a.store", tmp_path / "seen", (1, 2, 3, 4, 5))


def run(plan, settings=HERE):
    with Session(settings) as session, writing(plan.store) as writer:
        return run_stage(writer, plan, session)


def order(plan):
    return [int(number) for number in (plan.seen / "order").read_text().split()]


def begun(plan, *done):
    """The store as a run leaves it that was killed when these units were done."""
    with writing(plan.store) as writer:
        writer.begin(plan.name, plan.config, len(plan.units), {})
    worker = plan.worker()()
    for unit in done:
        made = worker.run(unit, plan.units[unit])
        record = records.Record(unit, plan.config_hash, made.files, made.facts)
        records.write(plan.store, plan.name, record)
    (plan.seen / "order").unlink(missing_ok=True)


def test_units_are_done_round_by_round_and_joined_into_one_result(plan):
    stage = run(plan)
    assert order(plan) == [1, 3, 0, 2, 4]
    assert stage.done
    assert stage.facts["total"] == 30
    assert (plan.store / "made/total").read_text() == "30"
    assert verify(Store.open(plan.store)).findings == []


def test_what_is_no_part_of_the_result_is_gone_when_the_stage_is_done(plan):
    run(plan)
    assert verify(Store.open(plan.store)).leftovers == []
    assert not (plan.store / "made/parts").exists()


def test_a_run_that_was_killed_goes_on_with_what_is_missing(plan):
    begun(plan, 1, 2)
    stage = run(plan)
    assert order(plan) == [3, 0, 4]
    assert stage.facts["total"] == 30
    assert not (plan.seen / "prepared").exists(), "room was made by the first run"


def test_room_is_made_as_long_as_no_unit_is_done(plan):
    begun(plan)
    run(plan)
    assert (plan.seen / "prepared").read_text() == "x"


def test_what_a_run_killed_between_finish_and_clean_up_left_is_removed_by_the_next(plan):
    run(plan)
    (plan.store / "made/parts").mkdir()
    (plan.store / "made/parts/1").touch()
    (plan.store / "made/note").touch()
    records.write(plan.store, plan.name, records.Record(0, plan.config_hash, {}))
    run(plan)
    assert verify(Store.open(plan.store)).leftovers == []


def test_a_finished_stage_is_left_alone(plan):
    run(plan)
    before = contents(plan.store)
    (plan.seen / "order").unlink()
    run(plan)
    assert not (plan.seen / "order").exists()
    assert contents(plan.store) == before


@pytest.mark.parametrize("finished", [False, True])
def test_other_settings_are_refused_by_name_also_when_the_stage_is_finished(plan, finished):
    if finished:
        run(plan)
    else:
        begun(plan, 1)
    with pytest.raises(ConfigMismatch, match="made was begun with other settings: seed was"):
        run(replace(plan, settings={"seed": 2}))
    assert run(plan).facts["total"] == 30


def test_a_finished_stage_that_is_asked_for_something_else_is_only_finished_anew(plan):
    first = unmerged(plan)
    run(first)
    (plan.seen / "order").unlink()
    stage = run(replace(first, asked="more"))
    assert stage.facts["asked"] == "more"
    assert not (plan.seen / "order").exists(), "no unit was done again"


def test_an_error_that_shows_the_input_unfit_undoes_the_stage(plan):
    with pytest.raises(ModelError, match="unit 4 is negative"):
        run(replace(plan, units=(1, 2, 3, 4, -5)))
    assert not plan.store.exists(), "nothing else was in the store"


def test_any_other_error_keeps_what_is_done(plan):
    broken = replace(plan, units=(1, 2, 3, 4, "five"))
    with pytest.raises(TypeError):
        run(broken)
    assert records.finished(plan.store, plan.name) == {0, 1, 2, 3}
    assert (plan.store / "made/parts/0").exists()


def test_what_the_cluster_cannot_schedule_is_refused_before_the_stage_counts_as_begun(
    plan, ray_local
):
    with pytest.raises(ClusterError, match="do not fit"):
        run(plan, WorkerSettings(workers=99, cpus_per_worker=1, progress="none"))
    assert not plan.store.exists()


def test_actors_and_this_process_make_the_same_bytes(plan, ray_local, tmp_path):
    other = replace(plan, store=tmp_path / "b.store")
    run(plan)
    run(other, WorkerSettings(workers=2, progress="none"))
    same = {name: data for name, data in contents(plan.store).items() if name != "store.json"}
    assert {name: data for name, data in contents(other.store).items() if name in same} == same


def test_a_session_starts_its_actors_once_for_all_its_stages(plan, ray_local):
    second = replace(plan, name="again")
    settings = WorkerSettings(workers=1, progress="none")
    with Session(settings) as session, writing(plan.store) as writer:
        pids = [run_stage(writer, one, session).facts["pids"] for one in (plan, second)]
    assert pids[0] == pids[1]
    assert os.getpid() not in pids[0]


def stage_of_contributing():
    """The stage that CONTRIBUTING shows, as it stands there."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(# retomaton_dist/stages/count.py\n.*?)```", text, re.DOTALL)
    imports = """
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
import numpy as np
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.runner import Done, Plan, chunk_units, chunk_work, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage import columns
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.guarded import GuardedReader
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store
"""
    names = {"__name__": "count"}
    exec(imports + code, names)
    return names["CountStage"]()


def declaration_of_contributing():
    """The entry of `STAGES` that CONTRIBUTING shows, as it stands there."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(DeclaredStage\(.*?)```", text, re.DOTALL)
    return eval(code, {"DeclaredStage": DeclaredStage})


def test_the_stage_that_contributing_shows_counts_and_is_a_stage_like_the_others(
    small_store, tmp_path
):
    path = shutil.copytree(small_store.path, tmp_path / "a.store")
    store = Store.open(path)
    stage = stage_of_contributing()
    with Session(HERE) as session, writing(path) as writer:
        stage.run(Running(writer, BuildSettings((HERE,)), session))
    found = columns.map_columns(path / "counts/counts.arrow", {"count": np.int64})["count"]
    assert np.array_equal(found, np.bincount(store.datastore().values, minlength=len(found)))
    checked = verify(Store.open(path))
    assert (checked.findings, checked.leftovers) == ([], [])
    facts = Store.open(path).stage("count").facts
    said = declaration_of_contributing().said(facts)
    assert said == f"{np.count_nonzero(found):,} values occur"
    work = Work(store.shape(), 1, MEASURED, len(found))
    (estimate,) = stage.estimate(BuildSettings((HERE,)), work)
    assert estimate.disk == found.nbytes


class Cut(Writer):
    """Is cut off, as a host is that pauses, when it has computed and not written yet."""

    def run(self, number, payload):
        os.kill(os.getpid(), signal.SIGSTOP)
        return super().run(number, payload)


def do_late(ticket, make, unit, said):
    try:
        Recorder(ticket.keep, make, ticket.check).run(unit)
    except StoreLocked as error:
        said.put(str(error))
    else:
        said.put("written")


@contextlib.contextmanager
def cut_off(plan, writer, payload):
    """A worker that does unit 0 in a process of its own and is stopped; yields how to wake it."""
    spawn = multiprocessing.get_context("spawn")
    said = spawn.Queue()
    make, unit = partial(Cut, plan.store, plan.seen), (0, payload)
    late = spawn.Process(target=do_late, args=(ticket_for(writer, plan), make, unit, said))
    late.start()

    def wake():
        os.kill(late.pid, signal.SIGCONT)
        return said.get(timeout=60)

    try:
        os.waitid(os.P_PID, late.pid, os.WSTOPPED)
        yield wake
    finally:
        late.kill()
        late.join()


def test_a_worker_that_comes_back_when_its_stage_is_done_writes_nothing(plan):
    """The run goes on: the worker belongs to it, but not to a stage that is at work."""
    with Session(HERE) as session, writing(plan.store) as writer:
        writer.begin(plan.name, plan.config, len(plan.units), {})
        with cut_off(plan, writer, plan.units[0]) as wake:
            run_stage(writer, plan, session)
            assert "done with its stage: nothing more is written" in wake()
    checked = verify(Store.open(plan.store))
    assert (checked.findings, checked.leftovers) == ([], [])


@pytest.mark.parametrize("finished", [False, True])
def test_a_worker_of_a_store_that_was_removed_and_built_anew_writes_nothing(plan, finished):
    """Under the same path, with other settings, while the new run works or when it is done."""
    other = replace(unmerged(plan), settings={"seed": 2})
    with contextlib.ExitStack() as open_until_the_end:
        with writing(plan.store) as writer:
            writer.begin(plan.name, plan.config, len(plan.units), {})
            wake = open_until_the_end.enter_context(cut_off(plan, writer, 1000))
        shutil.rmtree(plan.store)
        run(other)
        if not finished:
            open_until_the_end.enter_context(writing(plan.store))
        assert "no longer holds" in wake()
    assert (plan.store / "made/parts/0").read_text() == "2"
    checked = verify(Store.open(plan.store))
    assert (checked.findings, checked.leftovers) == ([], [])


@pytest.mark.parametrize("repaired", [False, True])
def test_a_finished_stage_whose_unit_was_recorded_anew_with_other_bits_is_mended_by_its_command(
    plan, repaired
):
    """Other bits, as of a worker with other hardware that nothing kept from writing."""
    stage = run(unmerged(plan))
    digest = files.write(plan.store / "made/parts/2", b"other bits")
    late = records.Record(2, plan.config_hash, {"made/parts/2": digest}, {"value": 6, "pid": 1})
    records.write(plan.store, plan.name, late)
    checked = verify(Store.open(plan.store))
    assert "do not add up" in checked.findings[0].problem
    if repaired:
        repair(plan.store, checked)
    assert run(unmerged(plan)).digest == stage.digest
    assert verify(Store.open(plan.store)).findings == []


def test_a_unit_of_a_finished_stage_whose_record_is_gone_is_done_anew_and_no_other(plan):
    stage = run(unmerged(plan))
    (plan.seen / "order").unlink()
    records.remove(plan.store, plan.name, 3)
    assert run(unmerged(plan)) == stage
    assert order(plan) == [3]


def test_a_part_that_was_altered_before_it_was_merged_is_refused_and_made_anew(plan):
    begun(plan, 0, 1, 2, 3, 4)
    (plan.store / "made/parts/2").write_text("altered")
    with pytest.raises(DamagedStore, match="run the same command again"):
        run(plan)
    assert run(plan).facts["total"] == 30
    assert order(plan) == [2], "no other unit was done again"
