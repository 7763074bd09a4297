"""Kernels never run code of other sources than those on disk, and are not compiled twice."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import numba
import pytest

from retomaton_dist.kernel_cache import KEPT, PREFIX, claim_folder, read_files, sources_of
from tests.conftest import ROOT, run_python

MADE = {
    "__init__": "",
    "constants": "STEP = 10\n",
    "callee": """
from retomaton_dist.compiled import compiled
from retomaton_dist.made.constants import STEP

@compiled
def advanced(number):
    return number + STEP
""",
    "caller": """
from retomaton_dist.compiled import compiled
from retomaton_dist.made.callee import advanced

@compiled
def twice(number):
    return advanced(advanced(number))
""",
}
SCRIPT = """
import json
from retomaton_dist.made.caller import twice
found = twice(1)
stats = twice.stats
print(json.dumps([found, sum(stats.cache_hits.values()), stats.cache_path]))
"""
CHANGED_MEANWHILE = """
from pathlib import Path
from retomaton_dist.made import callee
constants = Path(callee.__file__).with_name("constants.py")
constants.write_text("STEP = 30\\n")
"""
CLAIM = """
import sys
from retomaton_dist import kernel_cache
kernel_cache.KEPT = 100
for name in sys.argv[1:]:
    kernel_cache.claim_folder(name)
"""
CROWD = """
import os, sys
from pathlib import Path
from retomaton_dist import kernel_cache

kernel_cache.KEPT = 0
for _ in range(25):
    children = []
    for number in range(4):
        child = os.fork()
        if not child:
            try:
                folder = kernel_cache.claim_folder(f"{kernel_cache.PREFIX}{number % 2}")
                for step in range(20):
                    (folder / f"{os.getpid()}-{step}").write_text("machine code")
                os._exit(0)
            except BaseException as error:
                print(repr(error))
                os._exit(1)
        children.append(child)
    for _ in range(20):
        kernel_cache.forget_unused(Path(sys.argv[1]))
    assert not any(os.waitpid(child, 0)[1] for child in children)
"""


@pytest.fixture
def clone(tmp_path):
    """A copy of the packages with kernels of the test's own, two of them in files of their own."""
    folder = tmp_path / "clone"
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "retomaton_dist", folder / "retomaton_dist", ignore=left_out)
    made = folder / "retomaton_dist" / "made"
    made.mkdir()
    for name, text in MADE.items():
        (made / f"{name}.py").write_text(text)
    return folder


def environment(path, **variables):
    # Bytecode stays unwritten: Python itself takes it for fresh by time and size.
    return os.environ | {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"} | variables


def kept_in(folder):
    return os.environ | {"NUMBA_CACHE_DIR": str(folder)}


def run(path, before="", **variables):
    """The number that the kernel gives, how often it came from the cache, and the cache's path."""
    done = run_python("-P", "-c", before + SCRIPT, env=environment(path, **variables))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rewrite(path, old, new):
    """Change a file without a change of its size or time."""
    before, text = path.stat(), path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [("callee", "number + STEP", "number - STEP", -19), ("constants", "10", "20", 41)],
)
def test_a_change_of_what_a_kernel_calls_or_sees_shows_at_once(clone, name, old, new, found):
    assert run(clone)[:2] == [21, 0]
    rewrite(clone / f"retomaton_dist/made/{name}.py", old, new)
    assert run(clone)[:2] == [found, 0]


def test_kernels_are_not_compiled_again_for_a_change_of_what_they_do_not_import(clone):
    run(clone)
    rewrite(clone / "retomaton_dist/settings/build.py", "The", "the")
    found, hits, path = run(clone)
    assert (found, hits) == (21, 1)
    assert Path(path).parent.parent == clone / "retomaton_dist/__pycache__"


@pytest.mark.parametrize("package", ["automaton", "clustering", "codec", "search"])
def test_no_kernel_of_the_algorithms_is_made_of_settings(package):
    files = read_files(ROOT)
    kernels = [
        name
        for name, file in files.items()
        if name.startswith(f"retomaton_dist.{package}.") and b"\n@compiled" in file.text
    ]
    assert kernels
    for name in kernels:
        made_of = {path.relative_to(ROOT).as_posix() for path in sources_of(name, files).stamps}
        assert "retomaton_dist/compiled.py" in made_of
        assert not any(path.startswith("retomaton_dist/settings") for path in made_of), name


def test_code_of_a_process_that_saw_a_change_is_not_kept(clone):
    assert run(clone, CHANGED_MEANWHILE) == [21, 0, None]
    assert run(clone)[:2] == [61, 0]


def test_numbas_own_variable_names_the_place(clone, tmp_path):
    path = run(clone, NUMBA_CACHE_DIR=str(tmp_path / "chosen"))[2]
    assert Path(path).parent.parent == tmp_path / "chosen"


def test_without_source_files_nothing_is_kept(clone, tmp_path):
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in clone.rglob("*.py"):
            target.write(path, path.relative_to(clone))
    assert run(archive) == [21, 0, None]


def test_folders_that_no_process_uses_are_removed_but_for_the_last_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    used = claim_folder(f"{PREFIX}used")
    unused = [tmp_path / f"{PREFIX}{number}" for number in range(KEPT + 2)]
    done = run_python("-c", CLAIM, *(folder.name for folder in unused), env=kept_in(tmp_path))
    assert done.returncode == 0, done.stderr
    for time, folder in enumerate([used, *unused]):
        os.utime(f"{folder}.lock", (time, time))
    new = claim_folder(f"{PREFIX}new")
    left = {path for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {used, new, *unused[-(KEPT - 1) :]}


def test_no_folder_is_removed_under_a_process_that_uses_it(tmp_path):
    done = run_python("-c", CROWD, tmp_path, env=kept_in(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
