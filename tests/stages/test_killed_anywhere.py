"""SIGKILL at any file operation of a stage leaves a store that the same stage goes on with."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.conftest import run_python

# SIGKILL loses nothing that was written, on any file system: the fastest one will do.
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None


# A few of them anywhere, or each (of those of k-means, many).
@pytest.mark.parametrize(
    ("stage", "step", "operations"),
    [
        ("compile", 23, 100),
        ("index", 19, 80),
        ("suffix", 17, 50),
        ("ngram", 29, 150),
        pytest.param("cluster", 7, 300, marks=pytest.mark.slow),
        pytest.param("compile", 1, 100, marks=pytest.mark.slow),
        pytest.param("suffix", 1, 50, marks=pytest.mark.slow),
        pytest.param("index", 1, 80, marks=pytest.mark.slow),
        pytest.param("ngram", 3, 150, marks=pytest.mark.slow),
    ],
)
def test_killed_anywhere_and_run_again_it_ends_with_the_same_bytes(stage, step, operations):
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        # A forked process must not wait for threads that only its parent has.
        single = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = run_python("-m", "tests.stages.kill_stage", stage, step, folder, env=single)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= operations, (
        "columns are made, filled and renamed, and records written"
    )
