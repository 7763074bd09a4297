"""`retomaton submit`: other commands as jobs of a cluster, followed from here or left alone."""

import argparse
import secrets
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retomaton_dist.cli import build, calibrate, doctor, evaluate, reproduce, score, serve_index
from retomaton_dist.cli.command import (
    Command,
    CommandParser,
    Invocation,
    Parser,
    add_command,
    invocation,
)
from retomaton_dist.cli.signals import signals_interrupt
from retomaton_dist.cli.store_argument import require_shared, store_of
from retomaton_dist.errors import BadInput
from retomaton_dist.settings.parsing import FLAGGED, with_tables

if TYPE_CHECKING:
    from retomaton_dist.runtime.submission import JobBoard, SubmittedJob

# Commands that can be submitted, and what `python -m` runs for them.
JOBS: dict[str, tuple[Command, tuple[str, ...]]] = {
    "build": (build.COMMAND, ("retomaton_dist.jobs.build_datastore",)),
    "calibrate": (calibrate.COMMAND, ("retomaton_dist.cli", "calibrate")),
    "eval": (evaluate.COMMAND, ("retomaton_dist.jobs.evaluate_perplexity",)),
    "score": (score.COMMAND, ("retomaton_dist.cli", "score")),
    "serve-index": (serve_index.COMMAND, ("retomaton_dist.jobs.serve_index",)),
    "reproduce": (reproduce.COMMAND, ("retomaton_dist.jobs.reproduce_paper",)),
    "doctor": (doctor.COMMAND, ("retomaton_dist.jobs.check_cluster",)),
}
# Settings that are paths, and those that are paths unless the hub has a model of that name.
PATHS = (
    ("corpus", "corpus"),
    ("evaluate", "text"),
    ("evaluate", "calibrate_on"),
    ("evaluate", "out"),
    ("calibrate", "on"),
    ("score", "text"),
    ("score", "out"),
    ("reproduce", "data"),
    ("reproduce", "out"),
)
MODELS = (
    ("model", "model"),
    ("evaluate", "model"),
    ("calibrate", "model"),
    ("load", "model"),
    ("reproduce", "wiki_model"),
    ("reproduce", "strong_model"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is submitted, or what is done with jobs that are there."""
    _add_own(parser)
    parser.add_argument(
        "job",
        nargs=argparse.REMAINDER,
        metavar=f"{{{','.join(JOBS)}}} FLAGS... | list | follow ID | stop ID",
        help="a command with its own flags, or what to do with the jobs that the cluster has",
    )


def _add_own(parser: argparse.ArgumentParser) -> None:
    """Add the flags that are not the job's; they may stand before its name or after it."""
    parser.add_argument(
        "--address",
        metavar="TEXT",
        help="of the cluster: its dashboard (http://HOST:8265), HOST:PORT, or auto (default: "
        "RAY_API_SERVER_ADDRESS or RAY_ADDRESS, else http://127.0.0.1:8265)",
    )
    parser.add_argument("--detach", action="store_true", help="submit, and do not follow the log")


def run(call: Invocation) -> int:
    """Submit and follow, or list, follow or stop; a job's exit code becomes this command's."""
    own = Parser(
        prog="retomaton submit",
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    _add_own(own)
    own.add_argument("--config")
    given, rest = own.parse_known_args(call["job"])
    flags = {**call.flags, **vars(given)}
    action, *arguments = rest or [""]
    if action in JOBS:
        _check_job(action, arguments, flags.get("config"))
        return _submit(action, arguments, flags)
    if (action, len(arguments)) not in (("list", 0), ("follow", 1), ("stop", 1)):
        raise BadInput(
            f"submit {' '.join(rest) or 'what?'}: choose one of {', '.join(JOBS)} with its flags, "
            f"list, follow ID, or stop ID"
        )
    board = _board(flags)
    if action == "list":
        print(as_text(board.jobs()))
        return 0
    if action == "stop":
        print(f"{arguments[0]} is {board.stop(arguments[0]).status}; what is finished is kept")
        return 0
    return _follow(board, arguments[0], flags)


def _check_job(name: str, arguments: Sequence[str], config: str | None) -> None:
    """Refuse here what the job would refuse there, as far as it can be seen from here."""
    command, _ = JOBS[name]
    parser = Parser(prog="retomaton submit")
    add_command(parser.add_subparsers(dest="command", parser_class=CommandParser), command)
    parsed = parser.parse_args([name, *arguments])
    for short in {"address", "config"} & set(vars(parsed)):
        raise BadInput(f"spell --{short} out")
    parsed.config = config
    call = invocation(command, parsed)
    groups = {group: call.group(group) for group in command.groups}
    if command is build.COMMAND:
        with_tables([groups[group] for group in FLAGGED], call.file)
    if command is doctor.COMMAND:
        require_shared("store", call.get("store", "/"))
    elif command is not reproduce.COMMAND:
        require_shared("store", store_of(call))
    for group, field in PATHS:
        for path in _texts(groups, group, field):
            require_shared(f"--{field.replace('_', '-')}", path)
    for group, field in MODELS:
        for path in _texts(groups, group, field):
            if Path(path).exists():
                require_shared(f"--{field.replace('_', '-')}", path)


def _texts(groups: dict[str, Any], group: str, field: str) -> Sequence[str]:
    value = getattr(groups[group], field) if group in groups else None
    return (value,) if isinstance(value, str) else value or ()


def _submit(name: str, arguments: Sequence[str], flags: dict[str, Any]) -> int:
    files = {}
    if "config" in flags:
        config = Path(flags["config"])
        files[config.name] = config.read_bytes()
        arguments = [*arguments, "--config", config.name]
    line = ["python", "-m", *JOBS[name][1], *arguments]
    job = f"{name}-{secrets.token_hex(4)}"
    board = _board(flags)
    board.submit(job, line, [_folder_of("retomaton_dist")], files)
    where = f" --address {flags['address']}" if "address" in flags else ""
    print(
        f"submitted {job} to {board.address}\n"
        f"  its log: retomaton submit follow {job}{where}\n"
        f"  to end it: retomaton submit stop {job}{where}",
        file=sys.stderr,
        flush=True,
    )
    return 0 if flags.get("detach") else _follow(board, job, flags)


def _folder_of(package: str) -> Path:
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise BadInput(f"the package {package} is not a folder here; install retomaton_dist anew")
    return Path(found.submodule_search_locations[0])


def _board(flags: dict[str, Any]) -> "JobBoard":
    from retomaton_dist.runtime.submission import JobBoard

    return JobBoard(flags.get("address"))


def _follow(board: "JobBoard", job: str, flags: dict[str, Any]) -> int:
    with signals_interrupt() as asked:
        try:
            found = board.follow(job, _write, _note)
        except KeyboardInterrupt:
            where = f" --address {flags['address']}" if "address" in flags else ""
            _note(f"{job} goes on; `retomaton submit stop {job}{where}` ends it")
            return asked.code
    if found.status == "SUCCEEDED":
        return 0
    _note(f"{job} {'was stopped' if found.status == 'STOPPED' else 'failed'}: {_reason(found)}")
    return found.code or 2


def _reason(job: "SubmittedJob") -> str:
    if job.code:
        return f"exit code {job.code}; its log says why"
    said = job.message.strip().splitlines() or ["its log may say why"]
    return said[0] if len(said) == 1 else f"{said[0]} ... {said[-1]}"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _note(text: str) -> None:
    print(f"retomaton submit: {text}", file=sys.stderr, flush=True)


def as_text(jobs: "Sequence[SubmittedJob]") -> str:
    """Jobs for people: a line each, the latest last."""
    if not jobs:
        return "no job was submitted to this cluster"
    rows = [("id", "status", "exit", "begun", "took", "command")]
    rows += [
        (
            job.id,
            job.status,
            "" if job.code is None else str(job.code),
            _clock(job.begun),
            _duration(job.begun, job.ended),
            " ".join(job.entrypoint.split()),
        )
        for job in jobs
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def _clock(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""


def _duration(begun: float | None, ended: float | None) -> str:
    if begun is None:
        return ""
    minutes, seconds = divmod(round((ended or time.time()) - begun), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


COMMAND = Command(
    name="submit",
    summary="Run build, calibrate, eval, score, serve-index, reproduce or doctor as a job of a Ray "
    "cluster, and follow it.",
    arguments=add_arguments,
    run=run,
    examples="""
        are all nodes as they should be?
          retomaton submit doctor /shared/law.store

        follow the log until the job ends, with its exit code; Ctrl-C leaves it running:
          retomaton submit build --config build.toml
          retomaton submit eval /shared/law.store --text /shared/law/test.en \\
              --calibrate-on /shared/law/dev.en --address http://head:8265

        leave it alone, and come back:
          retomaton submit --detach build --config build.toml
          retomaton submit list
          retomaton submit follow build-1f2e3d4c
          retomaton submit stop build-1f2e3d4c

        an index that several jobs share:
          retomaton submit serve-index /shared/law.store
          retomaton submit eval --config eval.toml --served
          retomaton submit serve-index /shared/law.store --stop

        killed or stopped? the same command again does only what is missing. The packages of this
        installation go with the job; the nodes need what they depend on.
    """,
)
