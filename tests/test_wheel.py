"""What a user installs: the wheel alone, in an empty environment, far from this repository."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# Modules of Python's own library: enough text to run everything, little enough for a minute.
CORPUS = ("csv", "dis", "gzip", "json/decoder", "shlex")
CALIBRATION, TEST = ("bisect", "copy"), ("sched", "reprlib")


def files_of(folder):
    return {
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }


def run(*line, **options):
    """Run a command as a user would who knows nothing of this repository."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    options["env"] = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(list(map(str, line)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder():
    """Two gigabytes when installed: not left to pytest, which keeps folders for a while."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture(scope="module")
def wheel(folder):
    # From a copy: setuptools would put files of earlier builds, left in build/, into the wheel.
    source = folder / "source"
    unwanted = shutil.ignore_patterns("__pycache__")
    for package in ("jobs", "retomaton_dist", "storage"):
        shutil.copytree(ROOT / package, source / package, ignore=unwanted, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder / "dist", source)
    return next((folder / "dist").glob("*.whl"))


def copy_modules(names, target):
    library = Path(sysconfig.get_paths()["stdlib"])
    target.mkdir(parents=True)
    for name in names:
        shutil.copy(library / f"{name}.py", target)
    return target


def test_the_wheel_holds_every_file_and_installs_one_package(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    for folder, name in (("retomaton_dist", ""), ("storage", "storage/"), ("jobs", "jobs/")):
        files = {path.relative_to(ROOT / folder).as_posix() for path in files_of(ROOT / folder)}
        assert {f"retomaton_dist/{name}{file}" for file in files} <= held
    folders = {name.split("/")[0] for name in held}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"retomaton_dist"}


def test_the_wheel_runs_the_demo_in_an_empty_environment(wheel, folder):
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", environment)
    programs, pins = environment / "bin", ROOT / "constraints.txt"
    run(programs / "pip", "install", "-c", pins, f"{wheel}[cpu]")
    texts = [
        copy_modules(names, folder / "elsewhere" / part)
        for part, names in (("corpus", CORPUS), ("test", TEST), ("calibration", CALIBRATION))
    ]
    flags = zip(("--corpus", "--text", "--calibrate-on"), texts, strict=True)
    demo = [programs / "retomaton", "demo", *(word for pair in flags for word in pair)]
    said = run(*demo, "--steps", 60, "--workers", 1, "--progress", "none", cwd=folder / "elsewhere")
    assert "sound: " in said
    assert "retomaton                kmeans" in said
    assert (folder / "elsewhere/retomaton-demo/evaluation/report.html").is_file()
