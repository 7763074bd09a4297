"""A probe tells whether two processes see the same folder, its files and its locks."""

import pytest

from retomaton_dist.storage.errors import BadInput, WriteFailed
from retomaton_dist.storage.probe import FolderProbe, probing


def test_a_folder_that_is_shared_and_locked_has_no_problem(tmp_path):
    with probing(tmp_path / "new.store") as probe:
        assert probe.path.parent == tmp_path
        seen = probe.seen()
    assert seen.problem == ""
    assert seen.free > 0


def test_nothing_is_left_behind(tmp_path):
    store = tmp_path / "a.store"
    store.mkdir()
    with probing(store) as probe:
        probe.seen()
        assert [path.name for path in store.iterdir()] == [probe.path.name]
    assert list(store.iterdir()) == []


def test_a_path_that_is_not_there_is_named(tmp_path):
    assert FolderProbe(tmp_path / "no/probe").seen().problem == f"{tmp_path / 'no'} is not there"


def test_another_folder_under_the_same_path_is_told_from_the_shared_one(tmp_path):
    with probing(tmp_path / "a.store") as probe:
        pass
    assert "is another folder there" in probe.seen().problem


def test_other_contents_under_the_same_name_are_not_the_probe(tmp_path):
    with probing(tmp_path / "a.store") as probe:
        probe.path.write_text("something else")
        assert "is another folder there" in probe.seen().problem


def test_a_lock_that_others_do_not_see_is_a_problem(tmp_path):
    path = tmp_path / "probe"
    path.write_text("probe")
    assert "two could write" in FolderProbe(path).seen().problem


def test_a_store_without_a_folder_to_be_in_is_refused(tmp_path):
    with (
        pytest.raises(BadInput, match="neither such a store nor a folder"),
        probing(tmp_path / "no/such/a.store"),
    ):
        pass


def test_a_name_that_no_file_system_takes_is_refused_in_one_line(tmp_path):
    with pytest.raises(WriteFailed, match="name too long"), probing(tmp_path / ("a" * 300)):
        pass
