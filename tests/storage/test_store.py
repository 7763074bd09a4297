"""The life of a store: stages begin, do their units, finish, resume, and are repaired."""

import itertools
import subprocess
import sys

import pytest

from storage import files, records
from storage.canonical import content_hash
from storage.errors import ConfigMismatch, DamagedStore, NotAStore, StageMissing, StoreLocked
from storage.files import FileDigest
from storage.records import Record
from storage.store import Store, digest_of_files, writing
from tests.conftest import ROOT, contents
from tests.storage import make
from tests.storage.conftest import run_script

CONFIG = {"k": 4}
MADE_WITH = {"numpy": "2"}


def do_unit(path, unit, config=CONFIG, stage="index/a"):
    """What a worker does: write a file, then declare the unit done."""
    name = f"index/part-{unit}"
    digest = files.write(path / name, f"part {unit}".encode())
    records.write(path, stage, Record(unit, content_hash(config), {name: digest}))


def run(path, order, stage="index/a", merged=False):
    """A whole stage of as many units as `order` has; return how it was committed."""
    with writing(path) as writer:
        missing = writer.begin(stage, CONFIG, len(order), MADE_WITH)
        for unit in order:
            if unit in missing:
                do_unit(path, unit, stage=stage)
        whole = {"index/whole": files.write(path / "index/whole", b"all")}
        finish = writer.finish_merged if merged else writer.finish
        return finish(stage, whole, {"recall": 0.5})


def test_a_missing_folder_becomes_a_store(tmp_path):
    with writing(tmp_path / "a" / "my.store") as writer:
        assert Store.open(writer.path).manifest.stages == {}
        writer.begin("index/a", CONFIG, 1, MADE_WITH)
    assert set(Store.open(tmp_path / "a" / "my.store").manifest.stages) == {"index/a"}


@pytest.mark.parametrize("error", [NotAStore, KeyboardInterrupt])
def test_a_store_in_which_nothing_was_begun_does_not_outlive_its_writer(tmp_path, error):
    with pytest.raises(error), writing(tmp_path / "my.store"):
        raise error
    with writing(tmp_path / "my.store") as writer:
        writer.begin("index/a", CONFIG, 1, MADE_WITH)
        do_unit(tmp_path / "my.store", 0)
        (tmp_path / "my.store/index/part-0").unlink()
        (tmp_path / "my.store/index").rmdir()
        writer.abandon("index/a")
    assert list(tmp_path.iterdir()) == []


def test_a_store_whose_only_stage_is_abandoned_can_be_written_again(tmp_path):
    before = run(tmp_path, [0, 1], merged=True)
    with writing(tmp_path) as writer:
        writer.abandon("index/a")
    assert Store.open(tmp_path).manifest.stages == {}
    assert run(tmp_path, [0, 1], merged=True) == before


COMPETE = """
import os, sys
from pathlib import Path
from storage.errors import StoreLocked, WriteFailed
from storage.store import writing
folder = Path(sys.argv[1])
entered = 0
while entered < 25:
    try:
        with writing(folder / "my.store"):
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            entered += 1
            os.unlink(folder / "inside")
    except (StoreLocked, WriteFailed):
        pass
"""


def test_of_writers_who_each_leave_no_store_behind_never_two_are_inside(tmp_path):
    line = [sys.executable, "-c", COMPETE, str(tmp_path)]
    competitors = [subprocess.Popen(line, cwd=ROOT) for _ in range(3)]
    assert [process.wait() for process in competitors] == [0] * 3
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_nothing_but_debris_of_a_killed_writer_becomes_a_store(tmp_path):
    (tmp_path / "store.lock").write_bytes(b"{}")
    (tmp_path / ".store.json.0123.tmp").write_bytes(b"half")
    run(tmp_path, [])
    assert sorted(contents(tmp_path)) == ["index/whole", "store.json"]


def test_a_foreign_folder_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(NotAStore, match="other things in it"), writing(tmp_path):
        pass
    assert contents(tmp_path) == {"letter.txt": b"dear"}


def test_a_file_in_place_of_the_folder_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "my.store").write_text("dear")
    with pytest.raises(NotAStore, match="is a file"), writing(tmp_path / "my.store"):
        pass
    assert contents(tmp_path) == {"my.store": b"dear"}


def test_a_damaged_manifest_is_refused_and_left_as_it_is(tmp_path):
    run(tmp_path, [0])
    (tmp_path / "store.json").write_bytes(b"")
    before = contents(tmp_path)
    with pytest.raises(DamagedStore), writing(tmp_path):
        pass
    assert contents(tmp_path) == before


def test_a_store_in_a_folder_of_another_user_is_a_clear_refusal(tmp_path):
    tmp_path.chmod(0o555)
    body = "with writing(folder / 'my.store'): pass"
    message = run_script(body, tmp_path, unprivileged=True)
    assert message.startswith(f"WriteFailed: cannot write {tmp_path / 'my.store'}: permission")


def test_what_killed_writers_left_under_temporary_names_is_removed(tmp_path):
    run(tmp_path, [0])
    before = contents(tmp_path)
    for name in (
        ".store.json.1.tmp",
        "index/.part-0.2.tmp",
        "stages/index/a/.unit-00000.json.3.tmp",
    ):
        (tmp_path / name).write_bytes(b"half")
    with writing(tmp_path):
        pass
    assert contents(tmp_path) == before


def test_a_second_writer_is_refused_and_changes_nothing(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 1, MADE_WITH)
        before = contents(tmp_path)
        with pytest.raises(StoreLocked, match="is being written by process"), writing(tmp_path):
            pass
        assert contents(tmp_path) == before


def test_a_stage_goes_from_absent_through_running_to_done(tmp_path):
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 2, MADE_WITH) == {0, 1}
        with pytest.raises(StageMissing, match="is not finished"):
            Store.open(tmp_path).stage("index/a")
    done = run(tmp_path, [0, 1])
    found = Store.open(tmp_path)
    assert found.stage("index/a") == done
    assert (done.status, done.config, done.units, done.facts, done.made_with) == (
        "done",
        CONFIG,
        2,
        {"recall": 0.5},
        MADE_WITH,
    )
    assert done.bytes == len(b"part 0" + b"part 1" + b"all")
    assert list(done.files) == ["index/whole"]
    assert found.units("index/a") == {0, 1}


def test_a_later_run_gets_only_the_units_without_a_record(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 4, MADE_WITH)
        do_unit(tmp_path, 1)
        do_unit(tmp_path, 2)
    assert Store.open(tmp_path).units("index/a") == {1, 2}
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 4, MADE_WITH) == {0, 3}


def test_a_finished_stage_has_no_units_left_and_stays_as_it_is(tmp_path):
    run(tmp_path, [0, 1])
    before = contents(tmp_path)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 2, {"numpy": "3"}) == set()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("done", [False, True])
def test_another_config_is_refused_and_changes_nothing(tmp_path, done):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
    if done:
        run(tmp_path, [0, 1])
    before = contents(tmp_path)
    with pytest.raises(ConfigMismatch, match="k was 4, now 5"), writing(tmp_path) as writer:
        writer.begin("index/a", {"k": 5}, 2, MADE_WITH)
    assert contents(tmp_path) == before


def test_stages_of_other_names_coexist(tmp_path):
    first = run(tmp_path, [0], stage="index/a")
    run(tmp_path, [0], stage="index/b")
    assert list(Store.open(tmp_path).manifest.stages) == ["index/a", "index/b"]
    assert Store.open(tmp_path).stage("index/a") == first


def test_a_stage_with_a_unit_not_done_cannot_be_finished(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
        do_unit(tmp_path, 1)
        with pytest.raises(DamagedStore, match=r"unit-00000\.json is missing"):
            writer.finish("index/a", {}, {})
    assert not Store.open(tmp_path).manifest.stages["index/a"].done


def test_records_of_other_settings_are_never_mixed_in(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
        do_unit(tmp_path, 0)
        do_unit(tmp_path, 1, config={"k": 5})
        with pytest.raises(DamagedStore, match=r"unit-00001\.json belongs to"):
            writer.finish("index/a", {}, {})


def test_the_digest_of_a_stage_does_not_depend_on_the_order_of_its_units(tmp_path):
    orders = itertools.permutations(range(3))
    digests = {
        run(tmp_path / f"{number}.store", order).digest for number, order in enumerate(orders)
    }
    assert len(digests) == 1


def test_the_digest_covers_every_path_and_content():
    listed = {"a": FileDigest("1", 1), "b": FileDigest("2", 1)}
    variants = [
        listed,
        {"a": FileDigest("2", 1), "b": FileDigest("1", 1)},
        {"a": FileDigest("1", 1)},
        {"a": FileDigest("1", 1), "c": FileDigest("2", 1)},
        {},
    ]
    assert len({digest_of_files(variant) for variant in variants}) == len(variants)
    assert digest_of_files(dict(reversed(listed.items()))) == digest_of_files(listed)


def test_a_merged_stage_keeps_only_its_files(tmp_path):
    done = run(tmp_path, [0, 1], merged=True)
    assert done.units == 0
    assert done.digest == digest_of_files(done.files)
    assert done.bytes == len(b"all")
    assert Store.open(tmp_path).units("index/a") == set()
    assert not records.folder(tmp_path, "index/a").exists()


def test_records_that_a_killed_merge_left_are_removed_by_the_next_run(tmp_path):
    run(tmp_path, [0, 1], merged=True)
    before = contents(tmp_path)
    do_unit(tmp_path, 1)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 2, MADE_WITH) == set()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("undo", ["forget", "abandon"])
def test_records_that_a_killed_merge_left_do_not_count_when_it_is_done_anew(tmp_path, undo):
    run(tmp_path, [0, 1], merged=True)
    do_unit(tmp_path, 1)
    with writing(tmp_path) as writer:
        writer.forget("index/a", None) if undo == "forget" else writer.abandon("index/a")
        assert writer.begin("index/a", CONFIG, 2, MADE_WITH) == {0, 1}


@pytest.mark.parametrize("merged", [False, True])
def test_a_forgotten_stage_stays_bound_to_its_config(tmp_path, merged):
    run(tmp_path, [0, 1], merged=merged)
    with writing(tmp_path) as writer:
        writer.forget("index/a", None)
        with pytest.raises(ConfigMismatch):
            writer.begin("index/a", {"k": 5}, 2, MADE_WITH)


@pytest.mark.parametrize("unit", [0, 1, 2])
def test_a_forgotten_unit_is_done_anew_with_the_same_result(tmp_path, unit):
    before = run(tmp_path, range(3))
    whole = contents(tmp_path)
    (tmp_path / f"index/part-{unit}").unlink()
    with writing(tmp_path) as writer:
        writer.forget("index/a", unit)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == {unit}
    assert run(tmp_path, range(3)) == before
    assert contents(tmp_path) == whole


def test_what_a_stage_wrote_as_a_whole_is_done_anew_without_its_units(tmp_path):
    before = run(tmp_path, range(3))
    with writing(tmp_path) as writer:
        writer.forget("index/a", None)
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == set()
        with pytest.raises(StageMissing):
            Store.open(tmp_path).stage("index/a")
    assert run(tmp_path, range(3)) == before


def test_a_forgotten_merged_stage_is_done_anew_as_a_whole(tmp_path):
    before = run(tmp_path, range(3), merged=True)
    run(tmp_path, [0], stage="index/b")
    whole = contents(tmp_path)
    with writing(tmp_path) as writer:
        writer.forget("index/a", None)
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == {0, 1, 2}
        do_unit(tmp_path, 1)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == {0, 2}
    assert run(tmp_path, range(3), merged=True) == before
    assert contents(tmp_path) == whole


def test_an_abandoned_stage_may_begin_again_with_other_settings(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
        do_unit(tmp_path, 0)
        writer.abandon("index/a")
        writer.abandon("index/a")
        assert Store.open(tmp_path).manifest.stages == {}
        assert writer.begin("index/a", {"k": 5}, 2, MADE_WITH) == {0, 1}


def test_a_store_can_be_opened_at_any_moment_while_it_is_written(tmp_path):
    make.build(tmp_path)
    body = """
import sys
from pathlib import Path
from storage.store import writing
with writing(Path(sys.argv[1])) as writer:
    for round in range(60):
        writer.begin("index/a", {"round": round}, 0, {})
        writer.finish("index/a", {}, {"round": round})
        writer.abandon("index/a")
"""
    seen = set()
    with subprocess.Popen([sys.executable, "-c", body, tmp_path], cwd=ROOT) as process:
        while process.poll() is None:
            store = Store.open(tmp_path)
            assert store.datastore().shape.entries == store.corpus().entries == 5000
            stage = store.manifest.stages.get("index/a")
            seen.add(stage.status if stage else None)
            assert stage is None or not stage.done or stage.config == stage.facts
    assert process.returncode == 0
    assert seen == {None, "running", "done"}
