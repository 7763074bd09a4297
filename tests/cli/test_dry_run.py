"""`extract --dry-run`: what a build would take, before anything is written."""

import re

import pytest

import retomaton_dist as rd
from tests.conftest import TINY_DIMENSION


@pytest.fixture(scope="module")
def flags(small_store):
    return [*small_store.flags(), "--dry-run"]


def test_it_counts_what_the_real_run_makes_and_writes_nothing(
    command, small_store, flags, tmp_path
):
    result = command("extract", tmp_path / "new.store", *flags)
    assert (result.returncode, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
    made = rd.open(small_store.path)
    rows = dict(re.findall(r"^  (\w+) +(.*)$", result.stdout, re.MULTILINE))
    assert rows["documents"] == "1,800 (200 empty ones skipped)"
    assert rows["entries"] == f"{made.entries:,} of {TINY_DIMENSION} numbers"
    assert re.fullmatch(r"0\.00 GB, free: [\d,.]+ GB", rows["disk"])
    assert re.fullmatch(r"[\d.]+ GB for 1 workers, free here: [\d,.]+ GB", rows["memory"])
    assert re.fullmatch(r"about \d+:\d\d with 1 workers at [\d,]+ tokens/s each.*", rows["time"])


def test_it_finds_bad_input_too(command, flags, tmp_path):
    result = command("extract", tmp_path / "new.store", *flags, "--context", "65")
    assert result.returncode == 2
    assert "context 65 is larger" in result.stderr
    assert list(tmp_path.iterdir()) == []
