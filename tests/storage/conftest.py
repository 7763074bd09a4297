"""One small complete store, made once; tests alter copies of it or restore what they flip."""

import contextlib
import shutil
import textwrap

import pytest

from tests.conftest import run_python
from tests.storage import make


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    """A complete store of three chunks in two units. To be read only."""
    return make.build(tmp_path_factory.mktemp("sample") / "sample.store")


@pytest.fixture
def store_copy(sample, tmp_path):
    """A store that the test may alter."""
    return shutil.copytree(sample, tmp_path / "copy.store")


def flip(path, bit):
    """Flip one bit of a file; `bit` may be any number and wraps around."""
    data = bytearray(path.read_bytes())
    place = bit % (8 * len(data))
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


@contextlib.contextmanager
def flipped(path, bit):
    """Flip one bit of a file for the block, and back."""
    flip(path, bit)
    try:
        yield
    finally:
        flip(path, bit)


def only(findings):
    """The single finding there must be."""
    (finding,) = findings
    return finding


def run_script(body, folder, unprivileged=False):
    """Run lines of Python with `folder` in a process of its own; return its error, if any.

    `unprivileged` gives up root's rights first, for which no folder is read-only.
    """
    lines = [
        "import os, sys",
        "from pathlib import Path",
        "from retomaton_dist.storage import columns, files, lock, records, verify",
        "from retomaton_dist.storage.errors import StoreError",
        "from retomaton_dist.storage.store import Store, writing",
        "folder = Path(sys.argv[1])",
        "if os.geteuid() == 0 and sys.argv[2] == 'True': os.setuid(65534)",
        "try:",
        textwrap.indent(textwrap.dedent(body).strip("\n"), "    "),
        "except StoreError as error:",
        "    print(f'{type(error).__name__}: {error}')",
    ]
    ended = run_python("-c", "\n".join(lines), folder, unprivileged)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()
