"""The benchmarks are not run by the tests, but what they import must be there."""

import importlib
import sys
from pathlib import Path

import pytest

HELPERS = {"__init__", "memory", "scale_rates", "small_store", "watching"}
FOUND = {path.stem for path in Path(__file__).parent.glob("*.py") if "test_" not in path.stem}


@pytest.mark.parametrize("name", sorted(FOUND - HELPERS))
def test_a_benchmark_says_what_it_measures(name, monkeypatch, capsys):
    module = importlib.import_module(f"tests.benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])

    with pytest.raises(SystemExit) as ended:
        module.main()

    assert ended.value.code == 0
    assert module.__doc__.splitlines()[0] in " ".join(capsys.readouterr().out.split())
