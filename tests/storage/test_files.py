"""Every file of a store appears whole or not at all, durably, and a refusal says what to do."""

import errno
import gc
import hashlib
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.storage import files
from retomaton_dist.storage.errors import WriteFailed
from retomaton_dist.storage.files import FileDigest
from tests.conftest import contents
from tests.storage.conftest import run_script

ADVICE = {
    errno.ENOSPC: "disk is full",
    errno.EDQUOT: "quota",
    errno.EFBIG: "ulimit -f",
    errno.EROFS: "read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.EIO: "Input/output error",
}


@pytest.fixture
def fail(monkeypatch):
    """Have the n-th call of one operation in `storage.files` fail."""

    def arm(operation, code, call=1):
        def refused(*arguments, **options):
            nonlocal call
            call -= 1
            if not call:
                raise OSError(code, os.strerror(code))
            return original(*arguments, **options)

        if operation in ("replace", "mkdir"):
            original = getattr(Path, operation)
            monkeypatch.setattr(Path, operation, refused)
        else:
            original = getattr(os, operation)
            names = {**vars(os), operation: refused}
            monkeypatch.setattr(files, "os", SimpleNamespace(**names))

    return arm


@given(pieces=st.lists(st.binary(max_size=300)), step=st.integers(1, 100))
def test_a_file_holds_all_its_pieces_even_if_every_write_is_short(tmp_path_factory, pieces, step):
    path = tmp_path_factory.mktemp("files") / "file"
    with pytest.MonkeyPatch.context() as patch:
        short = SimpleNamespace(**{**vars(os), "write": lambda fd, data: os.write(fd, data[:step])})
        patch.setattr(files, "os", short)
        with files.replacing(path) as file:
            assert [file.write(piece) for piece in pieces] == list(map(len, pieces))
    whole = b"".join(pieces)
    assert path.read_bytes() == whole
    assert file.result == FileDigest(hashlib.sha256(whole).hexdigest(), len(whole))
    assert files.digest_of(path) == file.result


def test_the_digest_of_a_file_does_not_depend_on_how_it_is_read(tmp_path, monkeypatch):
    written = files.write(tmp_path / "file", bytes(range(256)) * 40)
    monkeypatch.setattr(files, "READ_BLOCK", 1000)
    assert files.digest_of(tmp_path / "file") == written


@pytest.mark.parametrize("code", ADVICE)
@pytest.mark.parametrize("operation", ["open", "write", "fsync", "replace"])
def test_a_refused_write_leaves_the_old_file_and_nothing_else(tmp_path, fail, operation, code):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    descriptors = set(Path("/proc/self/fd").iterdir())
    fail(operation, code)
    with pytest.raises(WriteFailed) as refused:
        files.write(path, b"new contents")
    message = str(refused.value)
    assert message.startswith(f"cannot write {path}: ")
    assert ADVICE[code] in message
    assert "\n" not in message
    assert contents(tmp_path) == {"file": b"old"}
    assert set(Path("/proc/self/fd").iterdir()) == descriptors


def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path, fail):
    files.write(tmp_path / "file", b"old")
    fail("write", errno.ENOSPC, call=3)
    with pytest.raises(WriteFailed), files.replacing(tmp_path / "file") as file:
        file.writelines([b"new"] * 5)
    assert contents(tmp_path) == {"file": b"old"}


def test_a_close_that_reports_an_error_leaves_the_old_file_and_nothing_else(tmp_path, fail):
    files.write(tmp_path / "file", b"old")
    fail("close", errno.EDQUOT)
    with pytest.raises(WriteFailed, match="quota"):
        files.write(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"old"}


def test_a_descriptor_is_closed_once_even_if_that_reports_an_error(tmp_path, monkeypatch):
    """A second close could hit a file that another thread has opened since."""
    closed = []

    def close(descriptor):
        closed.append(descriptor)
        os.close(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "os", SimpleNamespace(**{**vars(os), "close": close}))
    with pytest.raises(WriteFailed):
        files.write(tmp_path / "file", b"new")
    gc.collect()
    assert len(closed) == 1


def test_a_folder_that_cannot_be_flushed_is_an_error_but_the_file_is_whole(tmp_path, fail):
    files.write(tmp_path / "file", b"old")
    fail("fsync", errno.EIO, call=2)
    with pytest.raises(WriteFailed):
        files.write(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"new"}


def test_a_folder_that_cannot_be_made_is_a_refused_write(tmp_path, fail):
    fail("mkdir", errno.EROFS)
    with pytest.raises(WriteFailed, match="read-only"):
        files.write(tmp_path / "folder" / "file", b"new")
    assert contents(tmp_path) == {}


def fail_after(_, error):
    raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_changes_nothing_and_its_error_passes(tmp_path, error):
    files.write(tmp_path / "file", b"old")
    with pytest.raises(error), files.replacing(tmp_path / "file") as file:
        fail_after(file.write(b"new"), error)
    assert contents(tmp_path) == {"file": b"old"}


def test_a_reader_sees_one_version_or_the_other_but_never_a_part(tmp_path):
    path = tmp_path / "file"
    versions = [b"short", b"long" * 50_000]
    files.write(path, versions[0])
    writer = threading.Thread(
        target=lambda: [files.write(path, versions[number % 2]) for number in range(100)]
    )
    writer.start()
    while writer.is_alive():
        assert path.read_bytes() in versions
    writer.join()


def test_a_file_is_flushed_before_its_rename_and_its_folder_after_it(tmp_path, monkeypatch):
    path = tmp_path / "file"
    flushed = []

    def fsync(descriptor):
        flushed.append((os.fstat(descriptor).st_ino, path.exists()))

    monkeypatch.setattr(files, "os", SimpleNamespace(**{**vars(os), "fsync": fsync}))
    files.write(path, b"contents")
    assert flushed == [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_new_folders_are_flushed_as_well(tmp_path, monkeypatch):
    flushed = []
    record = SimpleNamespace(
        **{**vars(os), "fsync": lambda descriptor: flushed.append(os.fstat(descriptor).st_ino)}
    )
    monkeypatch.setattr(files, "os", record)
    files.write(tmp_path / "a" / "b" / "file", b"contents")
    changed = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert {folder.stat().st_ino for folder in changed} <= set(flushed)


def test_a_file_size_limit_of_the_system_is_a_clear_refusal(tmp_path):
    files.write(tmp_path / "file", b"old")
    ended = run_script(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        files.write(folder / "file", bytes(50_000))
        """,
        tmp_path,
    )
    assert ended == f"WriteFailed: cannot write {tmp_path / 'file'}: the file size limit is " + (
        "reached; raise it (ulimit -f) and run again"
    )
    assert contents(tmp_path) == {"file": b"old"}


def test_a_folder_of_another_user_is_a_clear_refusal(tmp_path):
    tmp_path.chmod(0o555)
    ended = run_script('files.write(folder / "file", b"new")', tmp_path, unprivileged=True)
    assert ended.startswith(f"WriteFailed: cannot write {tmp_path / 'file'}: permission denied")
    assert contents(tmp_path) == {}
