"""Files are read whole before results are made from them, and not again while they are the same."""

import os
import subprocess
import sys
import time

import pytest

from retomaton_dist.storage import files, verified_files
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.store import Store
from tests.conftest import ROOT
from tests.storage.conftest import flip, flipped

LONG_AGO = 1_000_000_000


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    """A machine and a process that remember nothing yet."""
    monkeypatch.setattr(verified_files.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(verified_files, "_CACHE", {})
    return tmp_path / f"retomaton-verified-{os.geteuid()}"


@pytest.fixture
def settled(monkeypatch):
    """Have every file count as changed long ago: a test cannot wait for that."""
    monkeypatch.setattr(verified_files, "SETTLED_NS", -LONG_AGO)


def reads_of(monkeypatch):
    """Paths that are read whole, as they are."""
    seen, real = [], files.problem_of
    monkeypatch.setattr(
        verified_files.files,
        "problem_of",
        lambda path, expected: (seen.append(path), real(path, expected))[1],
    )
    return seen


def made(folder, count=3):
    return {folder / f"f{n}": files.write(folder / f"f{n}", b"x" * 1000 * n) for n in range(count)}


def test_a_finished_stage_that_was_not_altered_is_accepted(store_copy):
    check_stage(Store.open(store_copy), "tokenize")
    check_stage(Store.open(store_copy), "extract")


@pytest.mark.parametrize(
    ("stage", "name"),
    [("tokenize", "corpus/documents.arrow"), ("extract", "datastore.zarr/values/c/1")],
)
def test_a_flipped_bit_is_refused_with_the_file_and_what_to_do(store_copy, stage, name):
    with flipped(store_copy / name, 5000):
        with pytest.raises(DamagedStore) as refused:
            check_stage(Store.open(store_copy), stage)
        said = f"`retomaton verify {store_copy} --repair`, then run its stage {stage} again"
        assert str(refused.value).startswith(f"{store_copy / name}: its contents were altered; ")
        assert said in str(refused.value)
    check_stage(Store.open(store_copy), stage)


def test_what_was_sound_is_not_read_again_until_it_changes(tmp_path, settled, monkeypatch):
    listed, seen = made(tmp_path / "a"), reads_of(monkeypatch)
    assert verified_files.problems_of("a", listed) == {}
    assert sorted(seen) == sorted(listed)
    assert verified_files.problems_of("a", listed) == {}
    assert len(seen) == 3
    flip(tmp_path / "a/f1", 77)
    assert verified_files.problems_of("a", listed) == {
        tmp_path / "a/f1": "its contents were altered"
    }


def test_a_time_that_was_set_back_hides_nothing(tmp_path, settled):
    listed = made(tmp_path / "a")
    assert verified_files.problems_of("a", listed) == {}
    before = (tmp_path / "a/f2").stat()
    flip(tmp_path / "a/f2", 77)
    os.utime(tmp_path / "a/f2", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert list(verified_files.problems_of("a", listed)) == [tmp_path / "a/f2"]


def test_what_has_just_changed_is_read_again_a_second_change_might_bear_the_same_time(
    tmp_path, monkeypatch
):
    listed, seen = made(tmp_path / "a"), reads_of(monkeypatch)
    verified_files.problems_of("a", listed)
    verified_files.problems_of("a", listed)
    assert len(seen) == 6


def ahead(listed, seconds):
    """Give files the times of a host whose clock is ahead of ours."""
    for path in listed:
        os.utime(path, (time.time() + seconds,) * 2)


def test_files_of_a_host_whose_clock_is_ahead_are_remembered_once_they_have_been_there_a_while(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(verified_files, "SETTLED_NS", 200_000_000)
    listed, seen = made(tmp_path / "a"), reads_of(monkeypatch)
    ahead(listed, 86_400)
    verified_files.problems_of("a", listed)
    monkeypatch.setattr(verified_files, "_CACHE", {})
    time.sleep(0.3)
    verified_files.problems_of("a", listed)
    assert len(seen) == 6, "another process could not know yet"
    monkeypatch.setattr(verified_files, "_CACHE", {})
    verified_files.problems_of("a", listed)
    assert len(seen) == 6, "what it found is for all"


def test_a_group_whose_name_is_not_utf_8_is_remembered_like_any_other(tmp_path, settled):
    assert verified_files.problems_of("a\udcff", made(tmp_path / "a")) == {}


OTHER = """
import sys
from pathlib import Path
from retomaton_dist.storage import files, verified_files
verified_files.tempfile.tempdir, verified_files.SETTLED_NS = sys.argv[2], -10**9
real, seen = files.problem_of, []
verified_files.files.problem_of = lambda *given: (seen.append(given), real(*given))[1]
listed = {path: files.digest_of(path) for path in sorted(Path(sys.argv[1]).iterdir())}
assert not verified_files.problems_of("a", listed)
print(len(seen))
"""


def test_processes_of_one_machine_read_a_file_once_together(tmp_path, memory):
    made(tmp_path / "a")
    line = [sys.executable, "-c", OTHER, str(tmp_path / "a"), str(memory.parent)]
    started = [
        subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert sorted(int(process.communicate()[0]) for process in started) == [0, 0, 3]


@pytest.mark.parametrize("contents", [b"", b"[]", b"\xff", b'{"a": 1}'])
def test_a_damaged_memory_is_no_memory(tmp_path, memory, settled, monkeypatch, contents):
    listed, seen = made(tmp_path / "a"), reads_of(monkeypatch)
    verified_files.problems_of("a", listed)
    for path in memory.glob("*.json"):
        path.write_bytes(contents)
    monkeypatch.setattr(verified_files, "_CACHE", {})
    assert verified_files.problems_of("a", listed) == {}
    assert len(seen) == 6


def test_a_memory_that_others_may_write_is_not_used(tmp_path, memory, settled):
    memory.mkdir()
    memory.chmod(0o777)
    assert verified_files.cache_folder() is None
    assert verified_files.problems_of("a", made(tmp_path / "a")) == {}
    assert list(memory.iterdir()) == []


def test_records_that_do_not_add_up_to_the_stage_are_refused(store_copy):
    """A record of another store with the same settings is whole, but not this one's."""
    record = store_copy / "stages/extract/unit-00001.json"
    from retomaton_dist.storage import canonical

    value = canonical.read(record, "")
    value["files"].popitem()
    canonical.write(record, value)
    with pytest.raises(DamagedStore, match="do not add up"):
        check_stage(Store.open(store_copy), "extract")
