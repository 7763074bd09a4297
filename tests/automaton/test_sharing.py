"""One copy in memory for all processes of a machine, and nothing loaded by opening."""

import subprocess
import sys

import numpy as np

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.codec.named import columns_of
from retomaton_dist.storage import columns
from retomaton_dist.storage.automaton import AUTOMATA, AutomatonShape
from tests.conftest import ROOT

ENTRIES = 400_000
SHAPE = AutomatonShape(ENTRIES, 4000, 64, "pq", 64, 16)
PROCESSES = 3

# Says how much of its memory is its own share (Pss): after opening, and after reading everything.
CHILD = """
import re, sys
from pathlib import Path
from retomaton_dist.automaton.automaton import Automaton

def share():
    # Bytes of the automaton's files that count as this process's own.
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = sys.argv[1] in line
        elif inside and line.startswith("Pss:"):
            total += int(line.split()[1]) * 1024
    return total

automaton = Automaton.open(sys.argv[1])
opened = share()
arrays = [*automaton.columns, *automaton.codec.codes]
total = sum(int(array.view("u1").max()) for array in arrays)
print("read", flush=True)
sys.stdin.readline()
print(opened, share(), flush=True)
sys.stdin.readline()
"""


def write(folder):
    random = np.random.default_rng(0)
    listed = {}
    for name, (kind, length) in columns_of(SHAPE).items():
        data = random.integers(0, 256, length * kind.itemsize, np.uint8).view(kind)
        listed[name] = columns.write_columns(folder / f"{name}.arrow", {name: data})
    AUTOMATA.describe(folder, SHAPE, listed)
    return sum(item.bytes for item in listed.values())


def test_processes_share_one_copy(tmp_path):
    size = write(tmp_path)
    assert size / ENTRIES <= 96
    line = [sys.executable, "-c", CHILD, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    children = [subprocess.Popen(line, **pipes) for _ in range(PROCESSES)]
    try:
        assert all(child.stdout.readline() == "read\n" for child in children)
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        shares = [tuple(map(int, child.stdout.readline().split())) for child in children]
    finally:
        for child in children:
            child.communicate("\n")
    opened, read = (sum(column) for column in zip(*shares, strict=True))
    # A few pages at both ends of every file, however large the files are.
    assert opened / PROCESSES < 3 << 20
    assert 0.9 * size < read < 1.5 * size


def test_opening_maps_and_does_not_copy(tmp_path):
    write(tmp_path)
    opened = Automaton.open(tmp_path)
    for array in (*opened.columns, *opened.codec.codes):
        assert not array.flags.owndata
        assert not array.flags.writeable
