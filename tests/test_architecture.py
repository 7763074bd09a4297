"""One direction: who may import whom, Ray in one place, one meaning per class name.

Every import counts, also those inside functions and below `if TYPE_CHECKING`: a package that needs
another's types knows of it.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

# Packages and modules of retomaton_dist, from low to high: each imports only what stands before it.
# CONTRIBUTING.md draws the same line.
DRAWN = (
    "errors < registry < kernel_cache < compiled < settings < corpus < lm < clustering < codec "
    "< automaton < search < artifacts < runtime < engine < methods < calibration < stages "
    "< analysis < evaluation < report < generation < serving < dry_run < checkup < api < cli"
)
ORDER = tuple(DRAWN.split(" < "))
# The three top folders likewise; `storage` and `jobs` are parts of the package through links.
TOP = ("storage", "retomaton_dist", "jobs")
RAY = "retomaton_dist/runtime/"
# What users call may run a job; nothing else of retomaton_dist knows of jobs.
DOORS = ("retomaton_dist/__init__.py", "retomaton_dist/cli/")
# What retomaton_dist/__init__.py has of its own; all else there is for users.
OWN = {"__version__"}
LINKED = re.compile(r"^retomaton_dist\.(storage|jobs)\b")
STORAGE_MAY = {"storage", "numpy", "pyarrow", "zarr", *sys.stdlib_module_names}


Rooms = dict[str, str]
"""Packages and modules of retomaton_dist, each with a file of it."""


class Import(NamedTuple):
    """One imported name: `from a.b import c` is a.b.c; storage and jobs by their folders."""

    place: str
    line: int
    target: str

    @property
    def package(self) -> str:
        return self.target.split(".")[0]

    def complaint(self, rule: str) -> str:
        return f"{self.place}:{self.line}: {self.target} is imported here, but {rule}"


def complaints(root: Path, order: tuple[str, ...] = ORDER) -> list[str]:
    """Everything below `root` that breaks a rule, one line each."""
    trees = {
        path.relative_to(root).as_posix(): ast.parse(path.read_bytes())
        for package in TOP
        for path in sorted((root / package).rglob("*.py"))
    }
    imports = [found for place, tree in trees.items() for found in imports_of(place, tree)]
    rooms = {room_of(place): place for place in trees if place.startswith("retomaton_dist/")}
    found = [complaint for one in imports for complaint in against_rules(one, rooms, order)]
    return [*found, *unordered(rooms, order), *doubled_classes(trees)]


def imports_of(place: str, tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                targets = [name.name for name in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                origin = "." * level + (f"{module}." if module else "")
                targets = [origin + name.name for name in names]
            case ast.Call(func=called, args=[ast.Constant(value=str(name)), *_]):
                targets = [name] if ast.unparse(called).endswith("import_module") else []
            case _:
                targets = []
        for target in targets:
            if target.split(".")[0] in ("storage", "jobs"):
                target = f"top-level {target}"
            yield Import(place, node.lineno, LINKED.sub(r"\1", target))


def against_rules(found: Import, rooms: Rooms, order: tuple[str, ...]) -> Iterator[str]:
    own = found.place.split("/")[0]
    if found.target.startswith("top-level "):
        yield found.complaint("what is installed is retomaton_dist alone: import it from there")
    if found.target.startswith("."):
        yield found.complaint("imports are absolute (kernel_cache.py reads them too): write it out")
    if found.package == "ray" and not found.place.startswith(RAY):
        yield found.complaint(f"Ray is known to {RAY} alone: ask for it there")
    if own == "storage" and found.package not in STORAGE_MAY | {"", "ray"}:
        yield found.complaint(
            "storage imports numpy, pyarrow and zarr alone: move what needs more up"
        )
    above = found.package in TOP and TOP.index(found.package) > TOP.index(own)
    if above and own != "storage" and not found.place.startswith(DOORS):
        yield found.complaint(f"imports go {' < '.join(TOP)}, never back: move what is shared down")
    if found.package == own == "retomaton_dist":
        yield from against_order(found, rooms, order)


def against_order(found: Import, rooms: Rooms, order: tuple[str, ...]) -> Iterator[str]:
    here, there = room_of(found.place), room_of(found.target.replace(".", "/"))
    if here == "__init__" or there in OWN:
        return
    if there not in rooms:
        yield found.complaint(
            "the package as a whole is for users: import from where it is defined"
        )
    elif {here, there} <= set(order) and order.index(there) > order.index(here):
        yield found.complaint(
            f"{here} stands before {there} in the order of tests/test_architecture.py: move what "
            f"is shared into {here} or lower, or hand it over as an argument"
        )


def room_of(place: str) -> str:
    """The package or module of retomaton_dist that a path lies in; nothing for itself."""
    parts = place.removesuffix(".py").split("/")
    return parts[1] if len(parts) > 1 else ""


def unordered(inside: Rooms, order: tuple[str, ...]) -> Iterator[str]:
    for room in sorted(inside.keys() - {*order, "__init__"}):
        yield (
            f"{inside[room]}:1: {room} has no place in the order: put it into DRAWN of "
            "tests/test_architecture.py and into CONTRIBUTING.md, or into a package that has one"
        )
    for room in order:
        if room not in inside:
            yield (
                f"retomaton_dist/{room}:1: stands in the order but is not there: take it out of "
                "DRAWN of tests/test_architecture.py and out of CONTRIBUTING.md"
            )


def doubled_classes(trees: dict[str, ast.Module]) -> Iterator[str]:
    places = defaultdict(list)
    for place, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{place}:{node.lineno}")
    for name, (first, *others) in places.items():
        for other in others:
            yield (
                f"{other}: class {name} is also defined in {first}, but a class name means one "
                "thing in the whole code: rename one, or use the other"
            )


def test_the_code_keeps_the_rules():
    found = complaints(ROOT)
    assert not found, "\n" + "\n".join(found)


def test_contributing_draws_the_order_that_is_checked():
    drawn = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    assert f"``` {DRAWN} ```" in drawn.replace("```text", "```"), (
        f"CONTRIBUTING.md: the order drawn there is not that of tests/test_architecture.py; "
        f"let one fenced block hold: {DRAWN}"
    )


@pytest.fixture
def check(tmp_path):
    """The complaints about a made-up tree in the order low < high, given as path: text."""

    def run(texts):
        rooms = {"retomaton_dist/low/__init__.py": "", "retomaton_dist/high.py": ""}
        for name, text in (rooms | texts).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return complaints(tmp_path, ("low", "high"))

    return run


@pytest.mark.parametrize(
    "texts",
    [
        {"retomaton_dist/high.py": "import retomaton_dist.low.a\nimport retomaton_dist.storage.a"},
        {"retomaton_dist/low/a.py": "from retomaton_dist.low import b\nimport torch"},
        {"retomaton_dist/runtime/a.py": "import ray", "retomaton_dist/low/a.py": "import rayon"},
        {"storage/a.py": "import os.path, numpy as np\nfrom pyarrow import ipc\nimport zarr"},
        {"jobs/a.py": "import retomaton_dist as rd\nfrom retomaton_dist.high import x"},
        {"retomaton_dist/__init__.py": "from retomaton_dist.jobs.a import x"},
        {"retomaton_dist/cli/a.py": "from retomaton_dist.jobs.a import x"},
        {"retomaton_dist/__init__.py": "from retomaton_dist.high import x"},
        {"retomaton_dist/low/a.py": "from retomaton_dist import __version__"},
        {
            "storage/a.py": "class A: ...",
            "retomaton_dist/low/a.py": "from retomaton_dist.storage.a import A",
        },
    ],
)
def test_what_keeps_the_rules_is_left_alone(check, texts):
    assert [line for line in check(texts) if "has no place" not in line] == []


@pytest.mark.parametrize(
    "text",
    [
        "import os\nfrom retomaton_dist.high import x",
        "import os\nimport retomaton_dist.high",
        "import os\nfrom retomaton_dist import high",
        "def f():\n    from retomaton_dist.high import x",
        "if TYPE_CHECKING:\n    from retomaton_dist.high import x",
        "import importlib\nimportlib.import_module('retomaton_dist.high')",
    ],
)
def test_an_import_against_the_order_is_found_wherever_it_stands(check, text):
    (line,) = check({"retomaton_dist/low/a.py": text})
    assert line.startswith("retomaton_dist/low/a.py:2: retomaton_dist.high")
    assert "low stands before high" in line


@pytest.mark.parametrize(
    ("place", "text", "rule"),
    [
        ("retomaton_dist/low/a.py", "import ray", "Ray is known to"),
        ("storage/a.py", "from ray.util import x", "Ray is known to"),
        ("jobs/a.py", "import ray", "Ray is known to"),
        ("storage/a.py", "import torch", "storage imports numpy"),
        ("storage/a.py", "from retomaton_dist.low import a", "storage imports numpy"),
        ("retomaton_dist/low/a.py", "import retomaton_dist.jobs.build", "never back"),
        ("retomaton_dist/low/a.py", "import storage.files", "retomaton_dist alone"),
        ("retomaton_dist/low/a.py", "from . import b", "imports are absolute"),
        ("retomaton_dist/low/a.py", "import retomaton_dist as rd", "is for users"),
        ("retomaton_dist/low/a.py", "from retomaton_dist import build", "is for users"),
        ("retomaton_dist/new.py", "", "new has no place in the order"),
        ("retomaton_dist/new/a.py", "", "new has no place in the order"),
    ],
)
def test_every_other_rule_names_the_file_the_line_and_itself(check, place, text, rule):
    (line,) = check({place: text})
    assert line.startswith(f"{place}:1: ")
    assert rule in line


def test_a_class_name_with_two_meanings_is_found(check):
    (line,) = check({"storage/a.py": "class A: ...", "jobs/b.py": "x = 1\nclass A: ..."})
    assert line.startswith("jobs/b.py:2: class A is also defined in storage/a.py:1")


def test_a_name_of_the_order_that_is_gone_is_found(tmp_path):
    (line,) = complaints(tmp_path, ("gone",))
    assert line.startswith("retomaton_dist/gone:1: stands in the order but is not there")
