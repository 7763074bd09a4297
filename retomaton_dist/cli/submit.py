"""`retomaton submit`: other commands as jobs of a cluster, followed from here or left alone."""

import argparse
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retomaton_dist.cli import commands
from retomaton_dist.cli.command import (
    Arguments,
    Command,
    CommandParser,
    Invocation,
    Parser,
    add_command,
    invocation,
    require_shared,
)
from retomaton_dist.cli.signals import signals_interrupt
from retomaton_dist.dry_run.tables import aligned
from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.progress import clock, say

if TYPE_CHECKING:
    from retomaton_dist.runtime.submission import JobBoard, SubmittedJob

JOBS = {
    command.name: command
    for command in (
        commands.BUILD,
        commands.CALIBRATE,
        commands.EVAL,
        commands.SCORE,
        commands.SERVE_INDEX,
        commands.REPRODUCE,
        commands.DOCTOR,
    )
}
# The flags that are not the job's; they may stand before its name or after it.
OWN: Arguments = {
    "--address": {
        "metavar": "TEXT",
        "help": "of the cluster: its dashboard (http://HOST:8265), HOST:PORT, or auto (default: "
        "RAY_API_SERVER_ADDRESS or RAY_ADDRESS, else http://127.0.0.1:8265)",
    },
    "--detach": {"action": "store_true", "help": "submit, and do not follow the log"},
}


def run(call: Invocation) -> int:
    """Submit and follow, or list, follow or stop; a job's exit code becomes this command's."""
    own = Parser(
        prog="retomaton submit",
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for flag, options in {**OWN, "--config": {}}.items():
        own.add_argument(flag, **options)
    given, rest = own.parse_known_args(call.get("job"))
    flags = {**call.arguments, **vars(given)}
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
    parser = Parser(prog="retomaton submit")
    add_command(parser.add_subparsers(dest="command", parser_class=CommandParser), JOBS[name])
    parsed = parser.parse_args([name, *arguments])
    for short in {"address", "config"} & set(vars(parsed)):
        raise BadInput(f"spell --{short} out")
    parsed.config = config
    call = invocation(JOBS[name], parsed)
    paths = [*call.paths("text"), *call.paths("place")]
    paths += [(flag, path) for flag, path in call.paths("model") if Path(path).exists()]
    if name == "doctor":
        paths.append(("store", call.get("store", "/")))
    elif name != "reproduce":
        paths.append(("store", call.store))
    for what, path in paths:
        require_shared(what, path)


def _submit(name: str, arguments: Sequence[str], flags: dict[str, Any]) -> int:
    files = {}
    if "config" in flags:
        config = Path(flags["config"])
        files[config.name] = config.read_bytes()
        arguments = [*arguments, "--config", config.name]
    line = ["python", "-m", "retomaton_dist.cli", name, *arguments]
    job = f"{name}-{secrets.token_hex(4)}"
    board = _board(flags)
    board.submit(job, line, [Path(__file__).parent.parent], files)
    where = _where(flags)
    say(f"submitted {job} to {board.address}")
    say(f"  its log: retomaton submit follow {job}{where}")
    say(f"  to end it: retomaton submit stop {job}{where}")
    return 0 if flags.get("detach") else _follow(board, job, flags)


def _board(flags: dict[str, Any]) -> "JobBoard":
    from retomaton_dist.runtime.submission import JobBoard

    return JobBoard(flags.get("address"))


def _where(flags: dict[str, Any]) -> str:
    return f" --address {flags['address']}" if "address" in flags else ""


def _follow(board: "JobBoard", job: str, flags: dict[str, Any]) -> int:
    def show(log: str) -> None:
        print(log, end="", flush=True)

    with signals_interrupt() as asked:
        try:
            found = board.follow(job, show, _note)
        except KeyboardInterrupt:
            _note(f"{job} goes on; `retomaton submit stop {job}{_where(flags)}` ends it")
            return asked.code
    if found.status == "SUCCEEDED":
        return 0
    said = found.message.strip().splitlines() or ["its log may say why"]
    reason = said[0] if len(said) == 1 else f"{said[0]} ... {said[-1]}"
    if found.code:
        reason = f"exit code {found.code}; its log says why"
    _note(f"{job} {'was stopped' if found.status == 'STOPPED' else 'failed'}: {reason}")
    return found.code or 2


def _note(text: str) -> None:
    say(f"retomaton submit: {text}")


def as_text(jobs: "Sequence[SubmittedJob]") -> str:
    """Jobs for people: a line each, the latest last."""
    if not jobs:
        return "no job was submitted to this cluster"
    rows = [("id", "status", "exit", "begun", "took", "command")]
    for job in jobs:
        code = "" if job.code is None else str(job.code)
        begun = took = ""
        if job.begun is not None:
            begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(job.begun))
            took = clock((job.ended or time.time()) - job.begun)
        rows.append((job.id, job.status, code, begun, took, " ".join(job.entrypoint.split())))
    return "\n".join(aligned(rows, texts=(0, 1, 2, 3, 5)))


COMMAND = Command(
    name="submit",
    summary="Run build, calibrate, eval, score, serve-index, reproduce or doctor as a job of a Ray "
    "cluster, and follow it.",
    run="retomaton_dist.cli.submit:run",
    arguments={
        **OWN,
        "job": {
            "nargs": argparse.REMAINDER,
            "metavar": f"{{{','.join(JOBS)}}} FLAGS... | list | follow ID | stop ID",
            "help": "a command with its own flags, or what to do with the jobs of the cluster",
        },
    },
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

        The packages of this installation go with the job; the nodes need what they depend on.
    """,
)
