"""Help teaches by example and costs nothing: no heavy import before a command runs."""

import dataclasses
import re
import tomllib

import pytest

from retomaton_dist.cli.main import COMMANDS
from retomaton_dist.settings import GROUPS, PRESETS, EvaluateSettings
from retomaton_dist.settings.option import flag_of
from tests.conftest import ROOT, run_command, run_python

HEAVY = ("dask", "faiss", "numba", "pyarrow", "ray", "torch", "transformers", "zarr")
LIST_HEAVY = f"import sys; print(sorted(set({HEAVY}) & set(sys.modules)))"


def heavy_after(code):
    result = run_python("-c", f"{code}\n{LIST_HEAVY}")
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1]


def test_importing_the_package_imports_nothing_heavy():
    assert heavy_after("import retomaton_dist; import retomaton_dist.cli") == "[]"


def test_no_help_imports_anything_heavy():
    code = f"""
from retomaton_dist.cli import main
for command in ([], *([name] for name in {list(COMMANDS)})):
    try:
        main([*command, "--help"])
    except SystemExit as stop:
        assert stop.code == 0
"""
    assert heavy_after(code) == "[]"


def test_bad_flags_and_settings_are_refused_before_anything_heavy_is_imported():
    code = """
from retomaton_dist.cli import main
assert main(["extract", "a.store", "--corpus", "a", "--model", "m", "--threads", "x"]) == 2
"""
    assert heavy_after(code) == "[]"


def test_a_store_or_a_text_that_is_not_there_is_refused_as_fast(small_store):
    code = f"""
from retomaton_dist.cli import main
for line in (["eval", "no.store", "--text", "a"], ["generate", "no.store", "--prompt", "a"],
             ["score", "{small_store.path}", "--text", "/no/where"],
             ["calibrate", "{small_store.path}", "--on", "/no/where"],
             ["generate", "{small_store.path}", "--prompts", "/no/where"],
             ["cluster", "no.store"], ["serve-index", "no.store"],
             ["build", "a.store", "--corpus", "/no/where", "--model", "m"]):
    assert main(line) == 2
"""
    assert heavy_after(code) == "[]"


def test_a_method_that_there_is_not_is_refused_as_fast(small_store, small_corpus):
    code = f"""
from retomaton_dist.cli import main
for name, flag in (("eval", "--methods"), ("score", "--method")):
    assert main([name, "{small_store.path}", "--text", "{small_corpus}", flag, "nope"]) == 2
assert main(["generate", "{small_store.path}", "--prompt", "a", "--method", "nope"]) == 2
"""
    assert heavy_after(code) == "[]"


def test_the_help_shows_every_command_and_how_to_begin(command):
    result = command("--help")
    assert result.returncode == 0
    for name in COMMANDS:
        assert re.search(rf"^ +{name}\b", result.stdout, re.MULTILINE)
    assert "retomaton build law.store --corpus" in result.stdout
    assert "retomaton eval law.store --text" in result.stdout
    assert "ray job submit" in result.stdout
    assert "exit codes: 0" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_commands_help_has_examples_that_begin_with_the_command(command, name):
    result = command(name, "--help")
    assert result.returncode == 0
    examples = result.stdout.split("\nexamples:\n")[1]
    assert re.search(rf"^ +retomaton {name}\b", examples, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_commands_help_shows_its_settings_with_their_defaults(command, name):
    text = " ".join(command(name, "--help").stdout.split())
    for group in COMMANDS[name].groups:
        assert f"[{group}]:" in text
        for item in dataclasses.fields(GROUPS[group]):
            assert f"--{flag_of(item)} " in text
            assert " ".join(item.metadata["help"].split())[:30] in text


def test_the_walk_that_eval_takes_is_the_one_that_its_help_shows(command):
    text = " ".join(command("eval", "--help").stdout.split())
    walk = PRESETS[EvaluateSettings.preset]
    for item in dataclasses.fields(walk):
        begin = text.index(item.metadata["help"])
        shown = text[begin:].split("(default: ")[1].split(")")[0]
        assert shown == str(getattr(walk, item.name))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_setting_of_a_command_is_in_two_of_its_groups(name):
    names = [
        item.name for group in COMMANDS[name].groups for item in dataclasses.fields(GROUPS[group])
    ]
    assert len(names) == len(set(names))


def test_the_version_is_that_of_the_package(command):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert command("--version").stdout == f"retomaton_dist {project['version']}\n"


def test_it_runs_as_a_process():
    result = run_command("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: retomaton ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["extrakt"], "invalid choice: 'extrakt' (did you mean extract?)"),
        (["biuld"], "did you mean build?"),
        (["nonesuch"], "invalid choice: 'nonesuch' (choose from "),
        (["inspect"], "the following arguments are required: STORE"),
        (["inspect", "a", "--jsn"], "unrecognized arguments: --jsn (did you mean --json?)"),
        (["build", "a", "--splt", "line"], "--splt line (did you mean --split?)"),
        (["generate", "a", "--max_new_tokens", "9"], "did you mean --max-new-tokens?"),
        (["inspect", "a", "--nothing-alike"], "arguments: --nothing-alike; see"),
        (["build", "a", "--states", "500"], "--states is a setting of [cluster] in the TOML file"),
        (["submit", "eval", "--txt", "a"], "did you mean --text?"),
        (["verify", "a", "--progress", "x"], "invalid choice: 'x'"),
        (["extract", "a", "--corpus"], "expected at least one argument"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_in_one_line(command, arguments, said):
    result = command(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr
    assert "--help" in result.stderr
