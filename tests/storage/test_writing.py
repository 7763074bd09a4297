"""Becoming a store's one writer, and what is refused, kept, cleaned up or left behind by it."""

import subprocess
import sys

import pytest

from retomaton_dist.storage.errors import DamagedStore, NotAStore, StoreError, StoreLocked
from retomaton_dist.storage.store import Store, writing
from tests.conftest import ROOT, contents
from tests.storage import make
from tests.storage.conftest import run_script
from tests.storage.units import CONFIG, MADE_WITH, do_unit, run


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
from retomaton_dist.storage.errors import StoreLocked, WriteFailed
from retomaton_dist.storage.store import writing
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


def test_a_store_can_be_opened_at_any_moment_while_it_is_written(tmp_path):
    make.build(tmp_path)
    body = """
import sys
from pathlib import Path
from retomaton_dist.storage.store import writing
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


def test_temporary_files_of_an_evaluation_that_is_running_are_not_anothers_to_remove(tmp_path):
    """An evaluation lies inside the store and holds locks of its own."""
    run(tmp_path, [0])
    out = tmp_path / "evaluations/law-sweep"
    with writing(out / "text") as inner:
        inner.begin("index/a", CONFIG, 1, MADE_WITH)
        being_written = [
            out / ".results.json.01.tmp",
            out / "text/.store.json.01.tmp",
            out / "text/stages/.unit-00000.json.01.tmp",
        ]
        being_written[2].parent.mkdir(exist_ok=True)
        left = [tmp_path / ".store.json.01.tmp", tmp_path / "index/.whole.01.tmp"]
        for path in (*being_written, *left):
            path.touch()
        with writing(tmp_path):
            pass
        assert all(path.exists() for path in being_written)
        assert not any(path.exists() for path in left)


def test_temporary_files_of_another_store_inside_are_its_own_writers_to_remove(tmp_path):
    run(tmp_path, [0])
    run(tmp_path / "deep/other.store", [0])
    (tmp_path / "deep/other.store/.a.tmp").touch()
    with writing(tmp_path):
        assert (tmp_path / "deep/other.store/.a.tmp").exists()
    with writing(tmp_path / "deep/other.store"):
        assert not (tmp_path / "deep/other.store/.a.tmp").exists()


@pytest.mark.parametrize("name", ["stages", "index/whole", "store.lock"])
def test_a_store_with_a_link_in_it_is_not_written_and_what_it_leads_to_stays(tmp_path, name):
    run(tmp_path / "my.store", [0])
    linked = tmp_path / "my.store" / name
    outside = tmp_path / "outside"
    if linked.exists():
        linked.rename(outside)
    else:
        outside.write_text("precious")
    before = contents(outside) if outside.is_dir() else outside.read_bytes()
    linked.symlink_to(outside)
    refused = pytest.raises(StoreError, match=rf"{linked}.*(is a link|symbolic links)")
    with refused, writing(tmp_path / "my.store"):
        pass
    assert (contents(outside) if outside.is_dir() else outside.read_bytes()) == before


def test_a_nul_byte_in_the_name_of_a_store_is_refused(tmp_path):
    for act in (lambda path: Store.open(path), lambda path: writing(path).__enter__()):
        with pytest.raises(NotAStore) as refused:
            act(tmp_path / "a\0b")
        assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_not_utf_8_is_refused(tmp_path):
    with pytest.raises(NotAStore, match="not UTF-8"), writing(tmp_path / "caf\udce9.store"):
        pass
    assert not list(tmp_path.iterdir())
