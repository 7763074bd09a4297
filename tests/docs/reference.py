"""Writes docs/reference/ from the declarations: `make docs`.

Commands, settings and the functions of `rd.` are declared once, with their help; these pages show
them. `test_reference.py` compares the pages with what is made here.
"""

import argparse
import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import retomaton_dist as rd
from retomaton_dist.api.store import Documents, Entry
from retomaton_dist.cli.command import DEFAULTS, Command, CommandParser, Parser, add_command
from retomaton_dist.cli.main import GROUPED
from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.generation.decoding import Effort
from retomaton_dist.generation.generate import Generated
from retomaton_dist.settings import GROUPS
from retomaton_dist.settings.option import flag_of
from retomaton_dist.settings.parsing import type_of
from retomaton_dist.storage.corpus import Document
from retomaton_dist.storage.states import States
from tests.conftest import ROOT

FOLDER = ROOT / "docs/reference"
# What functions and classes of `rd.` give back that has no name of its own there.
GIVEN_BACK = (Entry, Document, Documents, States, TokenScores, Generated, Effort)
KINDS = {int: "whole number", float: "number", str: "text", tuple: "paths", bool: "yes or no"}
BOUNDS = {"least": "at least", "above": "above", "most": "at most", "below": "below"}
MADE = "<!-- `make docs` writes this page from the declarations in the code: change those. -->\n"
COMMANDS = """\
# Commands

Most flags are [settings](settings.md), which have their help, defaults and bounds there. Settings
come from flags, or from one TOML file (`--config`) with a table per group; flags win. Exit codes: 0
done, 1 `verify` or `doctor` found something, 2 bad input or a failed run, 130 interrupted, 143
terminated.
"""
SETTINGS = """\
# Settings

A setting is a flag (`--batch-tokens`), a key of its group's table in the TOML file (`batch-tokens`)
and a keyword in Python (`batch_tokens`). `auto` means that the program finds out. What is out of
bounds is refused before anything is written.
"""


def pages() -> dict[str, str]:
    """The text of every page, by its name."""
    made = {"commands": commands_page(), "settings": settings_page(), "python": python_page()}
    return {f"{name}.md": "\n".join([MADE, *lines]) for name, lines in made.items()}


def commands_page() -> Iterator[str]:
    """Every command: what it does, by example, and its flags."""
    yield COMMANDS
    for title, commands in GROUPED.items():
        names = [f"[`{command.name}`](#retomaton-{command.name})" for command in commands]
        yield f"- {title}: {', '.join(names)}"
    for command in (command for commands in GROUPED.values() for command in commands):
        yield f"\n## retomaton {command.name}\n\n{command.summary}\n"
        yield f"```text\n{textwrap.dedent(command.examples).strip()}\n```\n"
        yield from table("argument | meaning", own_arguments(command))
        for name in command.groups:
            flags = ", ".join(f"`--{flag_of(field)}`" for field in dataclasses.fields(GROUPS[name]))
            own = DEFAULTS.get(name, {}).items()
            yield f"- {group_link(name)}: {flags}" + "".join(
                f"; `{key.replace('_', '-')}` is {value} by default" for key, value in own
            )
        for name in command.tables:
            yield f"- {group_link(name)}, in the TOML file alone"


def own_arguments(command: Command) -> list[tuple[str, str]]:
    """What a command takes besides settings, with its help."""
    subparsers = Parser().add_subparsers(parser_class=CommandParser)
    add_command(subparsers, command)
    settings = {field.name for name in command.groups for field in dataclasses.fields(GROUPS[name])}
    rows = []
    for action in subparsers.choices[command.name]._actions:
        if action.dest in settings or isinstance(action, argparse._HelpAction):
            continue
        value = [] if action.nargs == 0 else [str(action.metavar)]
        shown = " ".join([*action.option_strings, *value])
        rows.append((f"`{shown}`", str(action.help).replace("%%", "%")))
    return rows


def group_link(name: str) -> str:
    """The name of a group of settings, linked to where it is explained."""
    return f"[`[{name}]`](settings.md#{name})"


def settings_page() -> Iterator[str]:
    """Every group of settings, with defaults and bounds."""
    yield SETTINGS
    for name, group in GROUPS.items():
        yield f"\n## {name}\n\n{inspect.getdoc(group)}\n"
        rows = [
            (f"`{flag_of(field)}`", kind_of(field), default_of(field), str(field.metadata["help"]))
            for field in dataclasses.fields(group)
        ]
        yield from table("setting | is | default | meaning", rows)


def kind_of(field: "dataclasses.Field[Any]") -> str:
    """What a setting may be: its choices, or its type and bounds."""
    (kind, optional), rules = type_of(field), field.metadata
    auto = ["`auto`"] if optional else []
    if "choices" in rules:
        return ", ".join([*auto, *(f"`{choice}`" for choice in rules["choices"])])
    bounds = [f"{word} {number(rules[rule])}" for rule, word in BOUNDS.items() if rule in rules]
    return ", ".join(["name" if rules.get("names") else KINDS[kind], *bounds, *auto])


def default_of(field: "dataclasses.Field[Any]") -> str:
    """A setting's default, as help shows it."""
    if field.metadata.get("required"):
        return "(needed)"
    default = "auto" if field.default is None else number(field.default)
    return str(field.metadata.get("shown") or default)


def number(value: Any) -> str:
    """A bound or a default as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == 1 << 63:
        return "2^63"
    return f"{value:g}" if isinstance(value, float) else str(value)


def python_page() -> Iterator[str]:
    """The functions and classes of `rd.`, with their docstrings."""
    yield f"# Python\n\n{inspect.getdoc(rd)}\n\n## Functions\n"
    public = {name: getattr(rd, name) for name in sorted(rd.__all__)}
    classes = [item for item in public.values() if inspect.isclass(item)]
    for name, function in public.items():
        if function not in classes:
            yield f"### rd.{name}\n\n```python\n{head_of(name, function)}\n```\n"
            link = r"[`retomaton \1`](commands.md#retomaton-\1)"
            yield re.sub(r"`retomaton ([a-z-]+)`", link, inspect.getdoc(function) or "") + "\n"
    yield "## Classes\n"
    for item in (*classes, *GIVEN_BACK):
        yield f"### {item.__name__}\n\n{inspect.getdoc(item)}\n"
        if dataclasses.is_dataclass(item):
            yield f"Fields: {', '.join(f'`{field.name}`' for field in dataclasses.fields(item))}.\n"
        yield from table("member | meaning", members(item))


def members(item: type[Any]) -> Iterator[tuple[str, str]]:
    """The public properties and methods that a class defines."""
    for name, member in vars(item).items():
        is_property = hasattr(member, "fget") or hasattr(member, "func")
        if not name.startswith("_") and (is_property or callable(getattr(item, name))):
            shown = name if is_property else head_of(name, getattr(item, name))
            yield f"`{shown}`", " ".join(str(inspect.getdoc(member)).split())


def head_of(name: str, function: Callable[..., Any]) -> str:
    """A function's name, arguments and result, as its source has them."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    node.args.args = [each for each in node.args.args if each.arg not in ("self", "cls")]
    values = inspect.signature(function).parameters.values()
    named = {value.name: value.default for value in values}
    ours = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
    defaults = [*node.args.defaults, *node.args.kw_defaults]
    for argument, default in zip(reversed(ours), reversed(defaults), strict=False):
        if isinstance(default, ast.Name):  # a constant of ours
            value = named[argument]
            default.id = repr(value) if isinstance(value, int | float | str) else "..."
    result = ast.unparse(node.returns).strip("'") if node.returns else "None"
    return f"{name}({ast.unparse(node.args)}) -> {result}"


def table(head: str, rows: Any) -> Iterator[str]:
    """A table in Markdown, with an empty line behind it; nothing without rows."""
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    if lines:
        yield from (f"| {line} |" for line in (head, re.sub(r"\w+", "---", head), *lines))
        yield ""


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
