"""How every command ends: its exit code, and nothing on stderr that is not for people."""

import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from retomaton_dist.storage.records import finished
from retomaton_dist.storage.store import writing
from tests.conftest import ROOT
from tests.stages.killing import Running


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


@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_being_asked_to_end_is_an_exit_code_of_its_own_and_one_line(sent, code, word):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        line = [sys.executable, "-m", "retomaton_dist.cli", "submit", "list", "--address", address]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(line, cwd=ROOT, **piped)
        # It looks whether anybody is there, and then waits for an answer to its first question.
        with silent.accept()[0], silent.accept()[0] as asked:
            assert asked.recv(1)
            process.send_signal(sent)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err == f"{word}; what is finished is kept: run the same command again to go on\n"


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_with_ray_that_is_asked_to_end_keeps_what_is_finished(small_store, tmp_path, sent):
    flags = [*small_store.flags(), "--workers", "2", "--batch-tokens", "64", "--progress", "none"]
    running = Running.start("extract", tmp_path / "a.store", flags)
    running.wait_for_units("extract", 1)
    family = running.descendants()
    running.process.send_signal(sent)
    # A second one, as schedulers send, changes nothing.
    running.process.send_signal(signal.SIGTERM)
    code, out, err = running.finish()
    word = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[sent]
    assert err.splitlines()[-1].startswith(f"{word}; what is finished is kept")
    assert (code, out) == (128 + sent, "")
    assert len(err.splitlines()) == 1, err
    assert finished(tmp_path / "a.store", "extract")
    _, left = psutil.wait_procs(family, timeout=60)
    assert left == []
