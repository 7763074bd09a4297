"""SIGKILL between any two file operations of a stage leaves a store that opens and resumes."""

import tempfile
from pathlib import Path

import pytest

from tests.conftest import run_python

# SIGKILL loses nothing that was written, on any file system: the fastest one will do.
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None


def killed_everywhere(stage, operations):
    """Kill a stage at every operation and run it again; return how many operations there are."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        ended = run_python("-m", "tests.storage.kill", stage, operations, folder)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


@pytest.mark.parametrize("operations", ["changes", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", ["tokenize", "extract"])
def test_a_stage_killed_anywhere_and_run_again_ends_with_the_same_bytes(stage, operations):
    assert killed_everywhere(stage, operations) >= 45, (
        "a dozen files and more are created, written and renamed"
    )


def test_a_pruning_killed_anywhere_is_finished_by_the_same_command():
    assert killed_everywhere("prune", "changes") >= 8, "two records, the manifest and two files go"
