"""The tutorial is run as it stands: every command and every line of Python, in their order."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.docs.pages import blocks_of

TUTORIAL = ROOT / "docs/tutorial.md"
NUMBER = re.compile(r"[-+]?\d[\d.,:]*")
TIMEOUT = 600


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_does_what_it_says(tmp_path):
    program = tmp_path / "bin" / "retomaton"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m retomaton_dist.cli "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
    }
    folder = tmp_path / "tutorial"
    folder.mkdir()
    python = ""
    for block in blocks_of(TUTORIAL):
        if block.kind == "python":
            # Each block goes on from those before it, as in one session.
            python += block.text
            run([sys.executable, "-c", python], folder, environment)
        elif block.kind == "console":
            for command, shown in block.commands():
                printed = run(["sh", "-c", command], folder, environment)
                check_shown(shown, printed)


def run(command, folder, environment):
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=TIMEOUT
    )
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def check_shown(shown, printed):
    """Every line that the page shows was printed, in this order; numbers may differ."""
    lines = iter([masked(line) for line in printed.splitlines()])
    for line in shown:
        if line.strip() not in ("", "..."):
            assert masked(line) in lines, f"not printed, or not here: {line}\n{printed}"


def masked(line):
    return " ".join(NUMBER.sub("#", line).split())
