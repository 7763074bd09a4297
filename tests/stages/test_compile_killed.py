"""SIGKILL at any file operation of `codec` and `compile` leaves a store that is compiled on."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.conftest import run_python

# SIGKILL loses nothing that was written, on any file system: the fastest one will do.
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None


# A few of them anywhere, or each.
@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_compiling_killed_anywhere_and_run_again_ends_with_the_same_bytes(step):
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        # A forked process must not wait for threads that only its parent has.
        single = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = run_python("-m", "tests.stages.kill_compile", step, folder, env=single)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 100, "columns are made, filled and renamed, and records written"
