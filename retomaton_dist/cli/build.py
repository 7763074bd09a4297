"""`retomaton build`: all stages, from text to an automaton that can be walked."""

import argparse

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.dry_run_argument import add_dry_run, budget_of
from retomaton_dist.cli.store_argument import add_store, store_of
from retomaton_dist.settings.parsing import FLAGGED, TABLES, with_tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store, and the switch that only estimates."""
    add_store(parser)
    add_dry_run(
        parser,
        "count the tokens, time a little of each stage, and say what every stage would need "
        "against what is free",
    )


def run(call: Invocation) -> int:
    """Run every stage, or what is missing of it, and show the store; or say what it would take."""
    settings = with_tables([call.group(name) for name in FLAGGED], call.file)
    store = store_of(call)
    from retomaton_dist.api.build import run_build
    from retomaton_dist.api.describe import as_text
    from retomaton_dist.dry_run.build import estimate_build

    if call.get("dry_run"):
        print(estimate_build(store, settings, *budget_of(call)).as_text())
    else:
        print(as_text(run_build(store, settings).describe()))
    return 0


COMMAND = Command(
    name="build",
    summary="Build a store: tokenize, extract, cluster, index, compile, suffix, ngram, statistics; "
    "what is up to date is skipped.",
    groups=FLAGGED,
    tables=TABLES,
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton build law.store --corpus law/train.en --split line --model gpt2

        what would it take, stage by stage?
          retomaton build law.store --corpus law/train.en --split line --model gpt2 --dry-run

        settings of later stages come from the file's tables, [cluster], [index], [compile],
        [suffix] and [ngram]:
          retomaton build --config build.toml

        minutes instead of hours: no keys, only a suffix index and an n-gram model. The same
        command without --no-keys adds the rest:
          retomaton build law.store --corpus law/train.en --split line --model gpt2 --no-keys

        killed? the same command again does only what is missing.
    """,
)
