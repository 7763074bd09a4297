"""How every command ends: its exit code, and nothing on stderr that is not for people."""

import os
import signal
import subprocess
import sys

from storage.store import writing
from tests.conftest import ROOT


def begun_store(folder):
    with writing(folder / "a.store") as writer:
        writer.begin("tokenize", {}, 1, {})
    return folder / "a.store"


def test_a_reader_who_goes_away_is_no_error(tmp_path):
    """As in `retomaton inspect a.store | head -1`, with Python's usual buffering."""
    reading, gone = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "retomaton_dist.cli", "inspect", str(begun_store(tmp_path))]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    result = subprocess.run(
        line, cwd=ROOT, env=env, stdout=gone, stderr=subprocess.PIPE, check=False
    )
    os.close(gone)
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_interruption_is_exit_code_130_and_one_line(tmp_path):
    settings = tmp_path / "settings.toml"
    os.mkfifo(settings)
    line = [sys.executable, "-m", "retomaton_dist.cli", "index", "a.store", "--config", settings]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(line, cwd=ROOT, **piped)
    # Opening a pipe for writing waits for its reader, which then waits for what is written.
    with settings.open("w"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "interrupted; what is finished is kept: run the same command again to go on\n"
