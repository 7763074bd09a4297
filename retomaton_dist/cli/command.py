"""What a command is, how its settings become flags, and what it was called with."""

import argparse
import dataclasses
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from retomaton_dist.errors import BadInput, CorpusError
from retomaton_dist.registry import nearest
from retomaton_dist.settings import GROUPS, PRESETS, EvaluateSettings
from retomaton_dist.settings.option import flag_of
from retomaton_dist.settings.parsing import make_groups, read_file, type_of, with_tables

Arguments = Mapping[str, Mapping[str, Any]]
"""What `add_argument` of argparse takes, by name or flag."""

# Defaults that help shows instead of a group's own.
DEFAULTS = {"walk": dataclasses.asdict(PRESETS[EvaluateSettings.preset])}
STORE: Arguments = {"store": {"metavar": "STORE", "nargs": "?", "help": "the store's folder"}}


@dataclass(frozen=True)
class Command:
    """A subcommand, declared.

    run        the place (`package.module:name`) of its function, imported when it is called: is
               given the Invocation, returns the exit code
    groups     the groups of settings that it has flags for
    tables     groups that it reads from the TOML file alone
    arguments  what it takes besides
    opens      whether it reads a store that must be there
    """

    name: str
    summary: str
    run: str
    examples: str
    groups: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    arguments: Arguments = dataclasses.field(default_factory=dict)
    opens: bool = False


@dataclass(frozen=True)
class Invocation:
    """A command as it was called: the arguments that were given, and the TOML file behind them."""

    command: Command
    arguments: Mapping[str, Any]
    file: Mapping[str, Any]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The command's groups of settings by name: from flags, file and defaults, in that order.

        What is wrong with the tables that it reads besides is refused, too.
        """
        if self.command.tables:
            with_tables((), self.file)
        groups = self.command.groups
        made = make_groups([GROUPS[name] for name in groups], self.arguments, self.file)
        return dict(zip(groups, made, strict=True))

    def keywords(self, *groups: str) -> dict[str, Any]:
        """The settings of these groups, or of all, as keywords of the function of `rd.`."""
        named = {name: self.settings[name] for name in groups or self.command.groups}
        tables = {name: self.file[name] for name in self.command.tables if name in self.file}
        return tables | {key: value for made in named.values() for key, value in vars(made).items()}

    def get(self, name: str, default: Any = None) -> Any:
        """What was given of an argument that is no setting."""
        return self.arguments.get(name, default)

    @property
    def store(self) -> str:
        """The store that was named on the command line or, failing that, in the file."""
        store = self.get("store") or self.file.get("store")
        if not store:
            raise BadInput(
                "no store was named; give its folder, or `store = ...` in the --config file"
            )
        if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
            require_shared("store", store)
        return str(store)

    def paths(self, kind: str) -> Iterator[tuple[str, str]]:
        """Flags and values of the settings that are paths of this kind."""
        for group in self.settings.values():
            for field in dataclasses.fields(group):
                value = getattr(group, field.name) or ()
                if field.metadata.get("path") == kind:
                    for path in (value,) if isinstance(value, str) else value:
                        yield f"--{flag_of(field)}", path

    def check(self) -> None:
        """Refuse settings, stores and texts that cannot be, before seconds are spent on imports."""
        from retomaton_dist.corpus.sources import find_files
        from retomaton_dist.storage import manifest

        texts = list(self.paths("text"))
        if self.command.opens:
            manifest.read(Path(self.store))
        for flag, path in texts:
            try:
                find_files([path])
            except CorpusError as error:
                raise BadInput(str(error).replace("--corpus", flag)) from error


def require_shared(what: str, path: str) -> None:
    """Refuse a path that a job, which runs elsewhere, would not find: one that is relative."""
    if not Path(path).is_absolute():
        raise BadInput(
            f"{what} {path}: a job's working directory is a copy that goes away; give an absolute "
            f"path on a file system that all nodes of the cluster share"
        )


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
    for name, options in command.arguments.items():
        parser.add_argument(name, **options)
    for name in command.groups:
        kind = GROUPS[name]
        section = parser.add_argument_group(f"[{name}]", str(kind.__doc__).strip().splitlines()[0])
        for field in dataclasses.fields(kind):
            about = _help(field, DEFAULTS.get(name, {})).replace("%", "%%")
            section.add_argument(
                f"--{flag_of(field)}", dest=field.name, help=about, **_options(field)
            )
    if command.groups:
        parser.add_argument("--config", metavar="FILE", help="TOML file with settings; flags win")


def invocation(command: Command, parsed: argparse.Namespace) -> Invocation:
    """Bind what was given on the command line to the file it names."""
    given = {name: value for name, value in vars(parsed).items() if name != "command"}
    config = given.pop("config", None)
    return Invocation(command, given, read_file(config) if config else {})


def _options(field: "dataclasses.Field[Any]") -> dict[str, Any]:
    kind, optional = type_of(field)
    if kind is bool:
        return {"action": "store_true"}
    choices = field.metadata.get("choices")
    offered = "|".join(["auto", *choices] if optional else choices) if choices else None
    letter = {int: "N", float: "X", str: "TEXT", tuple: "PATH"}[kind]
    return {"metavar": offered or letter, **({"nargs": "+"} if kind is tuple else {})}


def _help(field: "dataclasses.Field[Any]", defaults: Mapping[str, Any]) -> str:
    about, default = str(field.metadata["help"]), defaults.get(field.name, field.default)
    if field.metadata.get("required"):
        return f"{about} (needed)"
    if default is False:
        return about
    shown = field.metadata.get("shown") or ("auto" if default is None else default)
    return f"{about} (default: {shown})"
