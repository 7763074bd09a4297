"""`retomaton reproduce`: the paper's experiments, and one report beside the paper's figures."""

import argparse

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.settings.reproduce import EXPERIMENTS, check_free


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiments, which may also stand in the file."""
    parser.add_argument(
        "experiments",
        nargs="?",
        metavar="EXPERIMENTS",
        help=f"comma-separated: {', '.join(EXPERIMENTS)}; or all (default: all)",
    )


def run(call: Invocation) -> int:
    """Run the experiments, or what is missing of them, then print what holds and where."""
    settings, workers = call.group("reproduce"), call.group("workers")
    check_free(call.file)
    from retomaton_dist.jobs.reproduce_paper import Reproduction

    page = Reproduction(settings, call.file, workers, lambda line: print(line, flush=True)).run()
    print(f"report: {page} (and report.md, results.json beside it)")
    return 0


COMMAND = Command(
    name="reproduce",
    summary="Run the paper's experiments at a size of your choice; one report beside its figures.",
    groups=("reproduce", "workers"),
    arguments=add_arguments,
    run=run,
    examples="""
        all of it, with a Wikipedia LM that is trained first:
          retomaton reproduce --data data --out paper

        one experiment, with an LM that is there, on the whole corpus:
          retomaton reproduce in-domain --data data --out paper --wiki-model wiki7M \\
              --wiki-bytes auto

        a stronger LM beside it:
          retomaton reproduce adaptation --data data --out paper --strong-model gpt2

        settings of the steps come from the file's tables: [train], [model], [extract], [cluster],
        [index], [compile], [evaluate], [walk]:
          retomaton reproduce --config paper.toml

        killed? the same command again does only what is missing.
    """,
)
