"""`retomaton doctor` as a user calls it."""

import pytest

from tests.cli.checks import check_refused


@pytest.mark.usefixtures("ray_local")
def test_this_machine_is_sound_and_the_page_says_so(command, tmp_path):
    result = command("doctor", tmp_path / "new.store")
    assert result.returncode == 0, result.stdout
    assert "1 machine: all is well" in result.stdout
    assert "seen, writable, locks hold" in result.stdout
    assert "FAILED" not in result.stdout
    for path in ("nearest states on cpu", "search IVF32,SQ8 on cpu", "a worker on ray"):
        assert path in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_store_whose_folder_is_missing_is_refused(command):
    check_refused(command("doctor", "/no/such/folder/a.store"), "/no/such/folder/a.store", "folder")
