"""The entry point: finds the command, runs it, and turns errors into one line and an exit code."""

import argparse
import errno
import os
import sys
import textwrap
from collections.abc import Sequence

from retomaton_dist import __version__
from retomaton_dist.cli import commands, submit
from retomaton_dist.cli.command import Command, CommandParser, Parser, add_command, invocation
from retomaton_dist.cli.signals import signals_interrupt
from retomaton_dist.errors import RetomatonError
from retomaton_dist.registry import load

# Of a name that is too long.
LONGEST_SHOWN = 100
# As --help shows them.
GROUPED = {
    "to begin with": (commands.DEMO, commands.DOCTOR, commands.PLAN),
    "make a store": (commands.BUILD, *commands.STAGE_COMMANDS),
    "use it": (
        commands.CALIBRATE,
        commands.EVAL,
        commands.COMPARE,
        commands.REPORT,
        commands.SCORE,
        commands.GENERATE,
        commands.SERVE,
    ),
    "look after it": (commands.INSPECT, commands.VERIFY, commands.PRUNE),
    "on a cluster": (submit.COMMAND, commands.SERVE_INDEX),
    "models and the paper": (commands.TRAIN_LM, commands.REPRODUCE),
}
COMMANDS = {command.name: command for group in GROUPED.values() for command in group}

EPILOG = """\
with your own text and model:
  retomaton build law.store --corpus law/train.en --split line --model gpt2 --dry-run
  retomaton build law.store --corpus law/train.en --split line --model gpt2
  retomaton eval law.store --text law/test.en --calibrate-on law/dev.en
  retomaton calibrate law.store --on law/dev.en
  retomaton generate law.store --prompt 'Having regard to' --explain
on a cluster:
  retomaton submit build --config build.toml
  ray job submit --working-dir . -- python -m jobs.build_datastore --config build.toml

Settings come from flags, or from one TOML file (--config) with a table per group; flags win.
Killed? The same command again does only what is missing.
`retomaton COMMAND --help` explains each command by example.
exit codes: 0 done, 1 verify or doctor found something, 2 bad input or a failed run, 130
interrupted, 143 terminated.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    for argument in sys.argv[1:] if arguments is None else arguments:
        # Bytes that are no text come as lone surrogates.
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            parser.error(
                f"{os.fsencode(argument)!r} is not UTF-8: no text, name or path may be else"
            )
    parsed: argparse.Namespace = parser.parse_args(arguments)
    command: Command = COMMANDS[parsed.command]
    with signals_interrupt() as asked:
        try:
            call = invocation(command, parsed)
            call.check()
            code: int = load(command.run)(call)
            # Here, not at exit, so that a reader who has gone away (`| head`) is noticed below.
            sys.stdout.flush()
            return code
        except RetomatonError as error:
            print(f"retomaton {command.name}: error: {error}", file=sys.stderr)
            return 2
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            name = f"{str(error.filename)[:LONGEST_SHOWN]}..."
            print(f"retomaton {command.name}: error: {name}: the name is too long", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            kept = "what is finished is kept: run the same command again to go on"
            print(f"{asked.word}; {kept}", file=sys.stderr)
            return asked.code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="retomaton",
        description=f"Datastores for retrieval automata: build, use, check.\n{_listed()}",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"retomaton_dist {__version__}")
    subparsers = parser.add_subparsers(
        dest="command",
        metavar="COMMAND",
        required=True,
        parser_class=CommandParser,
        help="one of those above",
    )
    for command in COMMANDS.values():
        add_command(subparsers, command)
    return parser


def _listed() -> str:
    """The commands with their summaries, group by group."""
    lines = []
    for title, group in GROUPED.items():
        lines += ["", f"{title}:"]
        for command in group:
            about = textwrap.wrap(command.summary, 72)
            lines += [f"  {command.name:<14}{about[0]}", *(" " * 16 + x for x in about[1:])]
    return "\n".join(lines)
