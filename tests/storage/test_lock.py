"""One writer per store, in real processes; the owner's death sets the lock free."""

import contextlib
import errno
import json
import os
import platform
import signal
import socket
import subprocess
import sys

import pytest

from retomaton_dist.storage import lock
from retomaton_dist.storage.errors import StoreLocked, WriteFailed
from tests.conftest import ROOT
from tests.storage.refusing import FLOCK

HOLD = """
import subprocess, sys
from pathlib import Path
from retomaton_dist.storage import lock
with lock.exclusive(Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(child.pid, flush=True)
    sys.stdin.readline()
    child.kill()
"""

COMPETE = """
import os, sys
from pathlib import Path
from retomaton_dist.storage import lock
from retomaton_dist.storage.errors import StoreLocked
folder = Path(sys.argv[1])
entered = 0
while entered < 30:
    try:
        with lock.exclusive(folder):
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            entered += 1
            os.unlink(folder / "inside")
    except StoreLocked:
        pass
"""


def start(script, folder):
    line = [sys.executable, "-c", script, str(folder)]
    return subprocess.Popen(
        line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@contextlib.contextmanager
def held(folder):
    """Yield a process that holds the lock, and that process's own child."""
    with start(HOLD, folder) as process:
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_a_second_writer_is_refused_at_once_with_the_owners_name(tmp_path):
    with held(tmp_path) as (process, _):
        with pytest.raises(StoreLocked) as refused, lock.exclusive(tmp_path):
            pass
        message = str(refused.value)
        assert message.startswith(f"{tmp_path} is being written by process {process.pid} on ")
        assert socket.gethostname() in message
        assert "\n" not in message
        assert lock.owner(tmp_path) in message
        process.communicate("done\n")
    with lock.exclusive(tmp_path):
        pass


def test_killing_the_owner_sets_the_lock_free_even_if_its_children_live_on(tmp_path):
    with held(tmp_path) as (process, child):
        process.kill()
        process.wait()
        os.kill(child, 0)
        assert (tmp_path / lock.LOCK_NAME).exists()
        assert lock.owner(tmp_path) is None
        with lock.exclusive(tmp_path):
            assert f"process {os.getpid()} " in lock.owner(tmp_path)
    assert lock.owner(tmp_path) is None


def test_of_many_competing_processes_never_two_are_inside(tmp_path):
    competitors = [start(COMPETE, tmp_path) for _ in range(6)]
    endings = [process.communicate()[0] or process.returncode for process in competitors]
    assert endings == [0] * 6, "exit code 1 is a FileExistsError: two were inside at once"
    assert list(tmp_path.iterdir()) == []


def test_who_waits_for_a_file_that_its_owner_removes_locks_the_new_one(tmp_path, monkeypatch):
    """The owner leaves just between another's opening of the file and locking it."""
    owner, flock = contextlib.ExitStack(), lock.fcntl.flock
    owner.enter_context(lock.exclusive(tmp_path))

    def late(*arguments):
        owner.close()
        return flock(*arguments)

    monkeypatch.setattr(lock.fcntl, "flock", late)
    with lock.exclusive(tmp_path):
        monkeypatch.undo()
        with pytest.raises(StoreLocked), lock.exclusive(tmp_path):
            pass
        assert (tmp_path / lock.LOCK_NAME).exists()


def test_the_lock_file_is_gone_after_the_block_however_it_ends(tmp_path):
    with lock.exclusive(tmp_path):
        assert (tmp_path / lock.LOCK_NAME).exists()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), lock.exclusive(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_the_owner_itself_cannot_enter_twice(tmp_path):
    with lock.exclusive(tmp_path):
        with pytest.raises(StoreLocked), lock.exclusive(tmp_path):
            pass
        assert lock.owner(tmp_path), "the refused attempt must not free the lock"


def test_nobody_owns_a_store_without_a_lock_file(tmp_path):
    assert lock.owner(tmp_path) is None


@pytest.mark.parametrize("name", [b"", b"{", b'{"pid": 1}', b"\xff\xfe"])
def test_an_owner_whose_name_is_unreadable_is_another_process(tmp_path, name):
    with lock.exclusive(tmp_path):
        (tmp_path / lock.LOCK_NAME).write_bytes(name)
        refused = pytest.raises(StoreLocked, match="is being written by another process")
        with refused, lock.exclusive(tmp_path):
            pass


@pytest.mark.parametrize("operation", ["open", "pwrite"])
def test_a_lock_that_cannot_be_written_is_a_clear_refusal_and_stays_free(
    tmp_path, monkeypatch, operation
):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lock.os, operation, refuse)
        with pytest.raises(WriteFailed, match="disk is full"), lock.exclusive(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []
    with lock.exclusive(tmp_path):
        pass


REFUSED = """
import errno, os, sys
from pathlib import Path
from retomaton_dist.storage import lock
from retomaton_dist.storage.errors import WriteFailed
from tests.storage.refusing import refuse_flock
folder = Path(sys.argv[1])
before = len(os.listdir("/proc/self/fd"))
refuse_flock(errno.ENOLCK)
try:
    with lock.exclusive(folder):
        print("inside")
except WriteFailed as error:
    print(error)
print(len(os.listdir("/proc/self/fd")) - before)
print(lock.owner(folder))
"""


@pytest.mark.skipif(platform.machine() not in FLOCK, reason="the number of flock is not known")
def test_a_file_system_without_locks_is_refused_in_one_line_and_nothing_stays_open(tmp_path):
    with start(REFUSED, tmp_path) as process:
        said, leaked, owner = process.communicate()[0].splitlines()
    assert said.startswith(f"cannot lock {tmp_path / lock.LOCK_NAME}: No locks available; ")
    assert "flock" in said
    assert leaked == "0"
    assert owner.startswith("an unknown process, if any")


def test_a_worker_knows_whether_its_run_still_holds_the_lock(tmp_path):
    with lock.exclusive(tmp_path) as held:
        token = held.token
        lock.check_held(tmp_path, token)
    with pytest.raises(StoreLocked, match="no longer holds"):
        lock.check_held(tmp_path, token)
    with lock.exclusive(tmp_path), pytest.raises(StoreLocked, match="no longer holds"):
        lock.check_held(tmp_path, token)


def test_a_worker_that_knows_an_older_token_of_its_run_is_refused(tmp_path):
    with lock.exclusive(tmp_path) as held:
        before, described = held.token, lock.owner(tmp_path)
        held.renew_token()
        lock.check_held(tmp_path, held.token)
        with pytest.raises(StoreLocked, match="done with its stage"):
            lock.check_held(tmp_path, before)
        assert lock.owner(tmp_path).split(" since ")[0] == described.split(" since ")[0]


def test_a_worker_of_a_killed_run_goes_on_as_long_as_nobody_took_over(tmp_path):
    with held(tmp_path) as (process, _):
        process.kill()
        process.wait()
        token = json.loads((tmp_path / lock.LOCK_NAME).read_bytes())["token"]
        lock.check_held(tmp_path, token)
