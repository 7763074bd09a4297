"""What a command is, and how its settings become flags."""

import argparse
import dataclasses
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from retomaton_dist.registry import nearest
from retomaton_dist.settings.option import flag_of
from retomaton_dist.settings.parsing import (
    GROUPS,
    help_of,
    is_required,
    make_group,
    read_file,
    type_of,
)

Arguments = argparse.Namespace


@dataclass(frozen=True)
class Command:
    """A subcommand: `groups` name its groups of settings, `run` returns its exit code.

    `tables` are groups that it reads from the TOML file alone.
    """

    name: str
    summary: str
    examples: str
    run: Callable[["Invocation"], int]
    groups: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    arguments: Callable[[argparse.ArgumentParser], None] = lambda _: None
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Invocation:
    """A command as it was called: the flags that were given, and the TOML file behind them."""

    flags: Mapping[str, Any]
    file: Mapping[str, Any]
    defaults: Mapping[str, Mapping[str, Any]]
    flagged: tuple[str, ...]

    def group(self, name: str) -> Any:
        """One group of settings, put together from flags, file and defaults, in that order.

        A group that the command has no flags for comes from the file alone.
        """
        kind = GROUPS[name]
        names = {item.name for item in dataclasses.fields(kind)} if name in self.flagged else set()
        given = {key: value for key, value in self.flags.items() if key in names}
        return make_group(kind, given, {**self.defaults.get(name, {}), **self.file.get(name, {})})

    def __getitem__(self, name: str) -> Any:
        return self.flags[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A flag outside the groups."""
        return self.flags.get(name, default)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; exit with 2."""
        self.exit(2, f"{self.prog}: error: {message}; see `{self.prog} --help`\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        near = nearest(str(value), map(str, action.choices or ()))
        if action.choices is not None and value not in action.choices and near is not None:
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r} (did you mean {near}?)"
            )
        super()._check_value(action, value)


class CommandParser(Parser):
    """The parser of one command: of a flag that it does not know, it names the nearest."""

    tables: tuple[str, ...] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse everything; unlike the inherited one, refuse what is unknown."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return parsed, unknown

    def _meant(self, unknown: Sequence[str]) -> str:
        for item in unknown:
            flag, _, _ = item.replace("_", "-").partition("=")
            for table in self.tables:
                if flag in [f"--{flag_of(field)}" for field in dataclasses.fields(GROUPS[table])]:
                    return f" ({flag} is a setting of [{table}] in the TOML file of --config)"
            near = nearest(flag, self._option_string_actions)
            if flag.startswith("--") and near is not None:
                return f" (did you mean {near}?)"
        return ""


def add_command(subparsers: Any, command: Command) -> None:
    """Add a subcommand with its flags, grouped as its settings are."""
    parser = subparsers.add_parser(
        command.name,
        description=command.summary,
        epilog="examples:\n" + textwrap.indent(textwrap.dedent(command.examples).strip(), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.tables = command.tables
    command.arguments(parser)
    for name in command.groups:
        _add_group(parser, name, command.defaults.get(name, {}))
    if command.groups:
        parser.add_argument("--config", metavar="FILE", help="TOML file with settings; flags win")


def invocation(command: Command, arguments: Arguments) -> Invocation:
    """Bind what was given on the command line to the file it names."""
    flags = {name: value for name, value in vars(arguments).items() if name != "command"}
    config = flags.pop("config", None)
    return Invocation(flags, read_file(config) if config else {}, command.defaults, command.groups)


def _add_group(parser: argparse.ArgumentParser, name: str, defaults: Mapping[str, Any]) -> None:
    kind = GROUPS[name]
    section = parser.add_argument_group(f"[{name}]", (kind.__doc__ or "").strip().splitlines()[0])
    for item in dataclasses.fields(kind):
        section.add_argument(
            f"--{flag_of(item)}",
            dest=item.name,
            help=_help(item, defaults).replace("%", "%%"),
            **_arguments(item),
        )


def _arguments(item: "dataclasses.Field[Any]") -> dict[str, Any]:
    kind, optional = type_of(item)
    if kind is bool:
        return {"action": "store_true"}
    choices = item.metadata.get("choices")
    offered = "|".join(["auto", *choices] if optional else choices) if choices else None
    letter = {int: "N", float: "X", str: "TEXT", tuple: "PATH"}[kind]
    return {"metavar": offered or letter, **({"nargs": "+"} if kind is tuple else {})}


def _help(item: "dataclasses.Field[Any]", defaults: Mapping[str, Any]) -> str:
    default = defaults.get(item.name, item.default)
    if is_required(item) and item.name not in defaults:
        return f"{help_of(item)} (needed)"
    if default is False:
        return help_of(item)
    shown = item.metadata.get("shown") or ("auto" if default is None else default)
    return f"{help_of(item)} (default: {shown})"
