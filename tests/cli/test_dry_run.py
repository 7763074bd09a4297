"""`build --dry-run`: what it would take, before anything is written."""

import re

import pytest

import retomaton_dist as rd
from retomaton_dist.dry_run.disk import warnings
from tests.cli.checks import check_refused_without_a_trace
from tests.conftest import TINY_DIMENSION


@pytest.fixture(scope="module")
def flags(small_store):
    return [*small_store.flags(), "--workers", "1", "--dry-run"]


def test_it_finds_bad_input_too(command, flags, tmp_path):
    result = command("build", tmp_path / "new.store", *flags, "--context", "65")
    assert result.returncode == 2
    assert "context 65 is larger" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_build_names_every_stage_and_writes_nothing(
    command, small_store, flags, tmp_path
):
    result = command("build", tmp_path / "new.store", *flags)
    assert (result.returncode, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
    head, *lines = result.stdout.splitlines()
    entries = rd.open(small_store.path).entries
    assert f"would hold {entries:,} entries of {TINY_DIMENSION} numbers, from 1,800" in head
    amount = r"[\d,.]+ [MG]B"
    numbers = rf"{amount} +{amount} +[\d.]+ +{amount} +[\d:]+ +[\d:]+"
    row = rf"  (\w+) +(\w+)\S* .*?{numbers}  (measured|derived)"
    found = [match.groups() for line in lines if (match := re.fullmatch(row, line))]
    assert found == [
        ("tokenize", "corpus", "measured"),
        ("extract", "datastore", "measured"),
        ("cluster", "states", "derived"),
        ("index", "index", "derived"),
        ("compile", "codecs", "derived"),
        ("compile", "automata", "derived"),
        ("suffix", "suffixes", "derived"),
        ("ngram", "ngrams", "derived"),
        ("statistics", "statistics", "derived"),
    ]
    totals = rf"^  in all +{amount} +{amount} +{amount} +[\d:]+ +[\d:]+$"
    assert re.search(totals, result.stdout, re.MULTILINE)
    assert "measured: tokenizing all of the corpus, and the model on" in result.stdout
    assert re.search(rf"^  free +{amount} +{amount}$", result.stdout, re.MULTILINE)


def test_that_of_a_build_finds_bad_settings_of_later_stages(command, flags, tmp_path):
    (tmp_path / "build.toml").write_text("[cluster]\niterations = 0\n")
    config = ["--config", tmp_path / "build.toml"]
    result = command("build", tmp_path / "new.store", *flags, *config)
    assert result.returncode == 2
    assert "[cluster] --iterations 0: at least 1 is needed" in result.stderr


@pytest.mark.parametrize("seconds", ["0", "-3", "nan", "inf", "soon"])
def test_time_that_nobody_has_is_refused(command, flags, tmp_path, seconds):
    store = tmp_path / "new.store"
    result = command("build", store, *flags, f"--dry-run-seconds={seconds}")
    check_refused_without_a_trace(result, store, f"--dry-run-seconds {seconds}: must be ")


def test_what_is_not_enough_is_said_loudly(tmp_path):
    assert warnings(1e30, 0, tmp_path / "new.store") == ["  NOT ENOUGH DISK"]
    assert warnings(0, 1e30, tmp_path / "new.store") == ["  NOT ENOUGH MEMORY"]
    assert warnings(0, 0, tmp_path / "new.store") == []
