"""A disk that is full or read-only: one line, nothing half-written, and later it goes on."""

import errno
import os
import resource
from pathlib import Path

import pytest

from retomaton_dist.storage import files
from retomaton_dist.storage.store import Store
from tests.cli.checks import Unchanged, check_refused, check_refused_without_a_trace
from tests.conftest import run_command

MERGED = ["corpus/tokens.arrow", "corpus/documents.arrow", "corpus/sources.arrow", "store.json"]


class RefusingSystem:
    """The `os` that `storage.files` writes with, but files of one name cannot be written."""

    def __init__(self, name, number):
        self.name, self.number = name, number
        self.refused = set()

    def __getattr__(self, name):
        return getattr(os, name)

    def open(self, path, *arguments):
        descriptor = os.open(path, *arguments)
        if Path(path).name.startswith(f".{Path(self.name).name}."):
            self.refused.add(descriptor)
        return descriptor

    def close(self, descriptor):
        self.refused.discard(descriptor)
        os.close(descriptor)

    def write(self, descriptor, data):
        if descriptor in self.refused:
            raise OSError(self.number, os.strerror(self.number))
        return os.write(descriptor, data)


@pytest.fixture
def refusing(monkeypatch):
    def refuse(name, number=errno.ENOSPC):
        monkeypatch.setattr(files, "os", RefusingSystem(name, number))

    return refuse


@pytest.fixture
def tokenize(command, ray_local, small_store, tmp_path):
    """Tokenise the small corpus into a new store, as the small store was."""
    flags = [*small_store.flags()[:6], "--progress", "none", "--workers", "1"]
    return lambda: command("tokenize", tmp_path / "new.store", *flags)


def check_same_corpus(store, small_store):
    digests = [Store.open(path).stage("tokenize").digest for path in (store, small_store.path)]
    assert digests[0] == digests[1]
    assert list(store.rglob(".*")) == []


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full; free some space and run the same command again"),
        (errno.EROFS, "the file system is read-only; choose another folder"),
        (errno.EACCES, "permission denied; choose another folder"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_store_whose_first_write_is_refused_does_not_come_into_being(
    tokenize, refusing, tmp_path, number, said
):
    refusing("store.json", number)
    result = tokenize()
    check_refused_without_a_trace(result, tmp_path / "new.store", "cannot write", "new.store", said)


def test_wherever_the_disk_is_full_the_same_command_goes_on_later(
    tokenize, refusing, small_store, tmp_path, monkeypatch
):
    """The first run's worker does all units; merging them is refused file after file."""
    store = tmp_path / "new.store"
    tokens = MERGED[0]
    refusing(tokens)
    check_refused(tokenize(), f"cannot write {store / tokens}: the disk is full")
    for name in MERGED[1:]:
        refusing(name)
        check_refused(tokenize(), f"cannot write {store / name}: the disk is full")
        assert list(store.rglob(".*")) == []
        assert Store.open(store).manifest.stages["tokenize"].status == "running"
    monkeypatch.setattr(files, "os", os)
    assert tokenize().returncode == 0
    check_same_corpus(store, small_store)


def test_a_finished_store_is_untouched_when_nothing_can_be_written(
    command, refusing, small_store, tmp_path
):
    copied = small_store.copy(tmp_path)
    refusing("store.json")
    with Unchanged(copied.path):
        assert command("extract", copied.path, *copied.flags()).returncode == 0


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs Linux")
def test_a_folder_in_which_nothing_can_be_created(command, small_store):
    flags = [*small_store.flags()[:6], "--progress", "none"]
    result = command("tokenize", "/sys/kernel/new.store", *flags)
    check_refused(result, "cannot write /sys/kernel/new.store", "choose another folder")


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_in_a_process_of_its_own(
    ray_local, tokenize, small_store, tmp_path
):
    """The process joins this one's Ray, so that only what the driver writes is limited."""
    store, limit = tmp_path / "new.store", 100_000
    assert (small_store.path / MERGED[0]).stat().st_size > limit
    address = ray_local.get_runtime_context().gcs_address
    flags = [*small_store.flags()[:6], "--progress", "none", "--workers", "1"]
    result = run_command(
        "tokenize",
        store,
        *flags,
        "--address",
        address,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    check_refused(result, f"cannot write {store / MERGED[0]}", "ulimit -f")
    assert list(store.rglob(".*")) == []
    assert tokenize().returncode == 0
    check_same_corpus(store, small_store)
